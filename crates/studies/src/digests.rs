//! Digests of requests, for detecting reused idempotency keys, and of points.

use sha2::{Digest, Sha256};
use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::ReportedOutcome;
use tunesmith_domain::{GivenResult, Measurement};

/// Digest of a request to add `measurement`.
pub(super) fn of_measurement(measurement: &Measurement) -> u64 {
    let mut content = Content::new("measurement");
    content.measurement(measurement);
    content.digest()
}

/// Digest of a request to create a trial.
pub(super) fn of_trial(parameters: &ParameterValues, result: Option<&GivenResult>) -> u64 {
    let mut content = Content::new("trial");
    content.number(parameters.len() as u64);
    content.parameters(parameters);
    match result.map(|given| &given.outcome) {
        None => content.text("none"),
        Some(ReportedOutcome::Measured(measurement)) => content.measurement(measurement),
        Some(ReportedOutcome::FromCurve) => content.text("curve"),
        Some(ReportedOutcome::Infeasible(reason)) => content.text(reason),
    }
    if let Some(given) = result.filter(|given| given.stopped_early || !given.measurements.is_empty()) {
        content.number(u64::from(given.stopped_early));
        given.measurements.iter().for_each(|measurement| content.measurement(measurement));
    }
    content.digest()
}

/// Stable across versions: stored summaries contain it.
pub(super) fn of_point(parameters: &ParameterValues) -> u64 {
    let mut content = Content(Sha256::new());
    content.parameters(parameters);
    content.digest()
}

struct Content(Sha256);

impl Content {
    fn new(kind: &str) -> Self {
        let mut content = Self(Sha256::new());
        content.text(kind);
        content
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text);
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn parameters(&mut self, parameters: &ParameterValues) {
        for (name, value) in parameters {
            self.text(name);
            match value {
                ParameterValue::Double(value) | ParameterValue::Discrete(value) => self.number(value.to_bits()),
                ParameterValue::Integer(value) => self.number(value.cast_unsigned()),
                ParameterValue::Categorical(value) => self.text(value),
            }
        }
    }

    fn measurement(&mut self, measurement: &Measurement) {
        self.number(measurement.step.cast_unsigned());
        self.number(measurement.elapsed_secs.map_or(u64::MAX, f64::to_bits));
        self.number(measurement.metrics.len() as u64);
        for metric in &measurement.metrics {
            self.text(&metric.metric);
            self.number(metric.value.to_bits());
        }
    }

    /// First eight bytes of the digest.
    fn digest(self) -> u64 {
        let bytes = self.0.finalize();
        bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
