//! The result of a trial from the outcome that its client reports.

use super::{ReportedOutcome, StudiesError};
use tunesmith_domain::{Completion, Measurement, Study, final_measurement};

/// The outcome of a trial of `study` with the measurements `curve`, by step.
///
/// # Errors
/// [`StudiesError::MissingMetric`] if a measured outcome lacks a metric of the study.
pub(super) fn completion(
    study: &Study,
    curve: &[Measurement],
    outcome: ReportedOutcome,
) -> Result<Completion, StudiesError> {
    let metrics = study.problem.metrics();
    Ok(match outcome {
        ReportedOutcome::Infeasible(reason) => Completion::Infeasible { reason },
        ReportedOutcome::Measured(measurement) => {
            if let Some(missing) = metrics.iter().find(|metric| measurement.value(&metric.name).is_none()) {
                let expected = metrics.iter().map(|metric| metric.name.clone()).collect();
                return Err(StudiesError::MissingMetric { metric: missing.name.clone(), expected });
            }
            measurement.require_finite().into()
        }
        ReportedOutcome::FromCurve => final_measurement(metrics, study.final_measurement, curve).into(),
    })
}
