//! Trials: what the services of both protocols do with them.

use tunesmith_api::ai_platform::optimizer::{PublishedNames, infeasible_outcome};
use tunesmith_domain::{Code, GivenResult, Measurement, Refusal, ReportedOutcome, Study, StudyId, Trial, TrialId};
use tunesmith_store::StoreError;
use tunesmith_studies::{Studies, StudiesError, TrialOfStudy, TrialRef};
use tunesmith_vizier::messages::vertex as messages;
use tunesmith_vizier::vertex;

use crate::refusals::violation;

/// Number of trials per read.
const READ: usize = 200;

/// A trial as read before a request of its owner.
pub(crate) struct KnownTrial {
    pub(crate) study: Study,
    pub(crate) trial: Trial,
    /// The trial for use cases. Without an attempt in its name, the current one: names of these protocols have none.
    pub(crate) key: TrialRef,
}

/// Reads the trial `id` of the first of `studies` that exists.
pub(crate) async fn known(
    studies: &Studies,
    ids: &[StudyId],
    id: TrialId,
    attempt: Option<u64>,
) -> Result<KnownTrial, Refusal> {
    let (mut missing, mut read) = (None, None);
    for study in ids {
        match studies.trial_of_study(study, id).await {
            Err(error @ StudiesError::Store(StoreError::NotFound { .. })) => missing = missing.or(Some(error)),
            known => {
                read = Some(known?);
                break;
            }
        }
    }
    let TrialOfStudy { study, trial } = read.ok_or_else(|| not_found(missing))?;
    let attempt = attempt.or_else(|| Some(trial.attempt).filter(|attempt| *attempt > 1));
    let key = TrialRef { study: study.id.clone(), trial: id, attempt };
    Ok(KnownTrial { study, trial, key })
}

/// Reads the first study of `ids`, at least one, that exists.
pub(crate) async fn first(studies: &Studies, ids: &[StudyId]) -> Result<Study, Refusal> {
    let mut missing = None;
    for id in ids {
        match studies.study(id).await {
            Err(error @ StudiesError::Store(StoreError::NotFound { .. })) => missing = missing.or(Some(error)),
            read => return Ok(read?),
        }
    }
    Err(not_found(missing))
}

fn not_found(error: Option<StudiesError>) -> Refusal {
    error.map_or_else(|| Refusal::new(Code::NotFound, "the study does not exist"), Refusal::from)
}

/// Messages of `trials` with their measurements.
pub(crate) async fn messages(
    studies: &Studies,
    study: &Study,
    trials: &[Trial],
) -> Result<Vec<messages::Trial>, Refusal> {
    let names = PublishedNames::of(study.problem.search_space());
    let mut messages = Vec::with_capacity(trials.len());
    for trial in trials {
        // Suggested trials have none, and reading them would cost as much as the suggestion.
        let curve =
            if trial.measurement_count == 0 { Vec::new() } else { studies.measurements(&study.id, trial).await? };
        messages.push(vertex::message_of_trial(study, &names, trial, &curve));
    }
    Ok(messages)
}

/// Trials of `study` with numbers above `after`: `limit` of them, or all.
pub(crate) async fn page(
    studies: &Studies,
    study: &StudyId,
    after: TrialId,
    limit: Option<usize>,
) -> Result<(Vec<Trial>, Option<TrialId>), Refusal> {
    let (mut trials, mut last) = (Vec::new(), after);
    loop {
        let wanted = limit.map_or(READ, |limit| (limit - trials.len()).min(READ));
        let page = studies.trial_page(study, last, wanted).await?;
        trials.extend(page.trials);
        match page.next {
            None => return Ok((trials, None)),
            Some(next) if limit.is_some_and(|limit| trials.len() >= limit) => return Ok((trials, Some(next))),
            Some(next) => last = next,
        }
    }
}

/// Refuses a measurement with a metric that the study has not.
pub(crate) fn check_metrics(study: &Study, measurement: &Measurement, field: &str) -> Result<(), Refusal> {
    let names = || study.problem.value_names();
    for (index, metric) in measurement.metrics.iter().enumerate() {
        if !names().any(|name| name == metric.metric) {
            let known: Vec<String> = names().map(|name| format!("{name:?}")).collect();
            let text = format!("{:?} is no metric of the study; allowed: {}", metric.metric, known.join(", "));
            return Err(Refusal::invalid(&format!("{field}.metrics[{index}].metricId"), text));
        }
    }
    Ok(())
}

/// Refuses a change of a trial that has ended.
pub(crate) fn check_open(trial: &Trial) -> Result<(), Refusal> {
    if !trial.state.is_final() {
        return Ok(());
    }
    let text = format!("trial {} has ended: it is {}", trial.id, trial.state);
    Err(Refusal::new(Code::FailedPrecondition, text))
}

/// Result with which a trial is created, with its curve; `None` without an outcome.
pub(crate) fn given(
    outcome: Option<ReportedOutcome>,
    measurements: Vec<messages::Measurement>,
) -> Result<Option<GivenResult>, Refusal> {
    let Some(outcome) = outcome else { return Ok(None) };
    let measurements = measurements.into_iter().enumerate().map(|(index, measurement)| {
        tunesmith_vizier::measurement(measurement, &format!("measurements[{index}]")).map_err(violation)
    });
    Ok(Some(GivenResult { measurements: measurements.collect::<Result<_, _>>()?, ..outcome.into() }))
}

/// Outcome in a request; `None` without one.
pub(crate) fn outcome(
    final_measurement: Option<messages::Measurement>,
    is_infeasible: bool,
    reason: String,
) -> Result<Option<ReportedOutcome>, Refusal> {
    if let Some(infeasible) = infeasible_outcome(is_infeasible, reason).map_err(violation)? {
        return Ok(Some(infeasible));
    }
    let Some(measurement) = final_measurement else { return Ok(None) };
    let measurement = tunesmith_vizier::measurement(measurement, "finalMeasurement").map_err(violation)?;
    Ok(Some(ReportedOutcome::Measured(measurement)))
}
