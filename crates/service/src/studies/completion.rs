//! The result of a trial from the outcome that its client reports.

use super::{ReportedOutcome, StudiesError};
use tunesmith_domain::{Completion, FinalMeasurement, Measurement, Study};

/// The outcome of a trial of `study` with the measurements `curve`, by step.
///
/// # Errors
/// [`StudiesError::MissingMetric`] if a measured outcome is not complete.
pub(super) fn completion(
    study: &Study,
    curve: &[Measurement],
    outcome: ReportedOutcome,
) -> Result<Completion, StudiesError> {
    Ok(match outcome {
        ReportedOutcome::Infeasible(reason) => Completion::Infeasible { reason },
        ReportedOutcome::Measured(measurement) => {
            if let Some(metric) = missing_metric(study, &measurement) {
                let expected = study.problem.metrics().iter().map(|metric| metric.name.clone()).collect();
                return Err(StudiesError::MissingMetric { metric, expected });
            }
            measured(measurement)
        }
        ReportedOutcome::FromCurve => match chosen(study, curve) {
            Some(measurement) => measured(measurement.clone()),
            None if curve.is_empty() => Completion::Infeasible { reason: "no measurement was reported".to_owned() },
            None => Completion::Infeasible { reason: "no measurement has all metrics of the study".to_owned() },
        },
    })
}

/// A measured outcome; infeasible if a value is not finite.
fn measured(measurement: Measurement) -> Completion {
    match measurement.metrics.iter().find(|metric| !metric.value.is_finite()) {
        None => Completion::Succeeded { final_measurement: measurement },
        Some(metric) => Completion::Infeasible {
            reason: format!("the final value of {:?} is {}, at step {}", metric.metric, metric.value, measurement.step),
        },
    }
}

/// The measurement that is the result: the last one, or the best one by the first metric.
fn chosen<'a>(study: &Study, curve: &'a [Measurement]) -> Option<&'a Measurement> {
    let mut complete = curve.iter().filter(|measurement| missing_metric(study, measurement).is_none());
    let metric = study.problem.metrics().first()?;
    let loss = |measurement: &Measurement| {
        let value = measurement.value(&metric.name).unwrap_or(f64::NAN);
        metric.goal.loss(value)
    };
    match study.final_measurement {
        FinalMeasurement::Last => complete.next_back(),
        FinalMeasurement::Best => {
            let finite = complete.filter(|measurement| loss(measurement).is_finite());
            finite.min_by(|a, b| loss(a).total_cmp(&loss(b)))
        }
    }
}

fn missing_metric(study: &Study, measurement: &Measurement) -> Option<String> {
    let mut names = study.problem.metrics().iter().map(|metric| &metric.name);
    names.find(|name| measurement.value(name).is_none()).cloned()
}
