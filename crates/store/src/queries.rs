//! Engine-independent reading calls, which distinguish missing records from lost ones.

use super::StoreError;
use super::engine::{Lookups, Ranges};
use tunesmith_domain::{Job, JobId, Measurement, Study, StudyId, Trial, TrialId};

pub(super) fn job(records: &(impl Lookups + ?Sized), id: &JobId) -> Result<Job, StoreError> {
    records.job(id)?.ok_or_else(|| StoreError::NotFound { resource: format!("job {id}") })
}

pub(super) fn study(records: &(impl Lookups + ?Sized), id: &StudyId) -> Result<Study, StoreError> {
    records.study(id)?.ok_or_else(|| not_found(id))
}

pub(super) fn trial_of_study(
    records: &(impl Lookups + ?Sized),
    study: &StudyId,
    id: TrialId,
) -> Result<(Study, Trial), StoreError> {
    let (found, trial) = records.study_and_trial(study, id)?;
    let study = found.ok_or_else(|| not_found(study))?;
    match trial {
        Some(trial) => Ok((study, trial)),
        None if id >= TrialId::FIRST && id < study.next_trial_id => Err(missing(records, &study.id, id)),
        None => Err(StoreError::NotFound { resource: format!("trial {id} of study {}", study.id) }),
    }
}

pub(super) fn changed_trials(
    records: &(impl Ranges + ?Sized),
    study: &StudyId,
    revision: u64,
    limit: usize,
) -> Result<Vec<Trial>, StoreError> {
    if let Some(trials) = records.changed_trials_of_study(study, revision, limit)? {
        return Ok(trials);
    }
    let trials = records.changed_trials(study, revision, limit)?;
    check_study(records, study, &trials)?;
    Ok(trials)
}

/// Checks that `study` exists, given trials read from it: only a study has trials, or a deleted one.
pub(super) fn check_study(
    records: &(impl Lookups + ?Sized),
    study: &StudyId,
    trials: &[Trial],
) -> Result<(), StoreError> {
    if trials.is_empty() || records.remains(study)?.is_some() {
        return self::study(records, study).map(|_| ());
    }
    Ok(())
}

pub(super) fn trials(
    records: &dyn Ranges,
    study_id: &StudyId,
    after: Option<TrialId>,
    limit: usize,
) -> Result<Vec<Trial>, StoreError> {
    let study = study(records, study_id)?;
    let after = after.unwrap_or(TrialId(0));
    let trials = records.trials(study_id, after, limit)?;
    // Trial numbers have no gaps, so a missing one is damage.
    let expected = study.next_trial_id.0.saturating_sub(1).saturating_sub(after.0);
    for number in 0..expected.min(limit as u64) {
        let id = after.offset(number + 1);
        if trials.get(number as usize).is_none_or(|trial| trial.id != id) {
            return Err(missing(records, study_id, id));
        }
    }
    Ok(trials)
}

pub(super) fn measurements(
    records: &dyn Ranges,
    study: &StudyId,
    trial_id: TrialId,
    from: u64,
    limit: usize,
) -> Result<Vec<Measurement>, StoreError> {
    let (_, trial) = trial_of_study(records, study, trial_id)?;
    let wanted = trial.measurement_count.saturating_sub(from).min(limit as u64) as usize;
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let mut measurements = Vec::with_capacity(wanted);
    let mut next = from;
    for (first, chunk) in records.chunks(study, trial_id, from, limit)? {
        let Some(skipped) = next.checked_sub(first) else { break };
        let before = measurements.len();
        measurements.extend(chunk.into_iter().skip(skipped as usize).take(wanted - before));
        next += (measurements.len() - before) as u64;
    }
    if measurements.len() == wanted {
        return Ok(measurements);
    }
    Err(StoreError::Damaged {
        path: records.path().to_owned(),
        detail: format!("measurement {next} of trial {trial_id} of study {study} is missing"),
    })
}

pub(super) fn not_found(study: &StudyId) -> StoreError {
    StoreError::NotFound { resource: format!("study {study}") }
}

fn missing(records: &(impl Lookups + ?Sized), study: &StudyId, id: TrialId) -> StoreError {
    StoreError::Damaged {
        path: records.path().to_owned(),
        detail: format!("trial {id} of study {study} is missing; {}", super::RESTORE_ADVICE),
    }
}
