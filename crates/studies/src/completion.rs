//! Converts a client-reported outcome to a trial's result.

use super::{ReportedOutcome, StudiesError};
use std::collections::BTreeSet;

use tunesmith_domain::{
    CompletedStart, Completion, GivenResult, Measurement, NoFinalMeasurement, Study, TrialId, final_measurement,
};

/// Outcome of a trial with the measurements `curve`, ordered by step.
///
/// # Errors
/// [`StudiesError::MissingMetric`] if a measured outcome lacks a metric or constraint.
pub(super) fn completion(
    study: &Study,
    curve: &[Measurement],
    outcome: ReportedOutcome,
) -> Result<Completion, StudiesError> {
    Ok(match outcome {
        ReportedOutcome::Infeasible(reason) => Completion::Infeasible { reason },
        ReportedOutcome::Measured(measurement) => {
            if let Some(missing) = study.problem.value_names().find(|name| measurement.value(name).is_none()) {
                return Err(StudiesError::MissingMetric {
                    metric: missing.to_owned(),
                    seen: metrics_of(std::slice::from_ref(&measurement)),
                    expected: metrics_of_study(study),
                });
            }
            measurement.require_finite().into()
        }
        ReportedOutcome::FromCurve => final_measurement(&study.problem, study.final_measurement, curve).into(),
    })
}

/// Result of the next trial of `study`, which is created with it.
///
/// # Errors
/// [`StudiesError::MissingMetric`], and those of [`require_measurement`] if the result is to be selected.
pub(super) fn given(study: &Study, given: GivenResult) -> Result<CompletedStart, StudiesError> {
    let GivenResult { outcome, measurements, stopped_early } = given;
    if outcome == ReportedOutcome::FromCurve {
        require_measurement(study, study.next_trial_id, &measurements)?;
    }
    let completion = match completion(study, &measurements, outcome)? {
        Completion::Infeasible { reason } if stopped_early => Completion::Stopped { reason },
        completion => completion,
    };
    Ok(CompletedStart { completion, measurements, stopped_early })
}

/// Checks that `curve` has a measurement that can complete `trial`. Non-finite values qualify: they make the trial
/// infeasible.
pub(super) fn require_measurement(study: &Study, trial: TrialId, curve: &[Measurement]) -> Result<(), StudiesError> {
    match final_measurement(&study.problem, study.final_measurement, curve) {
        Ok(_) | Err(NoFinalMeasurement::NotFinite { .. }) => Ok(()),
        Err(NoFinalMeasurement::NoMeasurement) => Err(StudiesError::NoMeasurement(trial)),
        Err(NoFinalMeasurement::MissingMetric) => Err(StudiesError::NoCompleteMeasurement {
            trial,
            seen: metrics_of(curve),
            expected: metrics_of_study(study),
        }),
    }
}

fn metrics_of(measurements: &[Measurement]) -> Vec<String> {
    let metrics = measurements.iter().flat_map(|measurement| &measurement.metrics);
    let names: BTreeSet<&String> = metrics.map(|metric| &metric.metric).collect();
    names.into_iter().cloned().collect()
}

fn metrics_of_study(study: &Study) -> Vec<String> {
    study.problem.value_names().map(str::to_owned).collect()
}
