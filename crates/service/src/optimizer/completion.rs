//! Converts the outcome that a client reports for a trial into the change of the trial.

use super::{OptimizerError, Outcome};
use tunesmith_domain::{Completion, Measurement, Study, final_measurement};

/// The completion of a trial of `study` that has the measurements `curve`.
///
/// # Errors
/// [`OptimizerError::MissingMetric`] if a measured outcome lacks a metric of the study.
pub(super) fn completion(study: &Study, curve: &[Measurement], outcome: Outcome) -> Result<Completion, OptimizerError> {
    let metrics = study.problem.metrics();
    Ok(match outcome {
        Outcome::Infeasible(reason) => Completion::Infeasible { reason },
        Outcome::Measured(measurement) => {
            if let Some(missing) = metrics.iter().find(|metric| measurement.value(&metric.name).is_none()) {
                let expected = metrics.iter().map(|metric| metric.name.clone()).collect();
                return Err(OptimizerError::MissingMetric { metric: missing.name.clone(), expected });
            }
            measurement.require_finite().into()
        }
        Outcome::Reported => final_measurement(metrics, study.final_measurement, curve).into(),
    })
}
