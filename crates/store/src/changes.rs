//! Engine-independent changing calls. The domain decides which changes are legal.

use super::engine::Changes;
use super::{CopiedRecords, StoreError, SummaryKind, queries};
use tunesmith_domain::{
    CompletedStart, Job, JobChange, JobId, NewTrial, Study, StudyChange, StudyId, TransitionError, Trial, TrialChange,
    TrialId, TrialStart, TrialState,
};
use tunesmith_telemetry::telemetry;

/// Trials removed per transaction with their study, so that a long deletion does not block other changes. Not tuned:
/// some ten milliseconds.
const REMOVED_AT_ONCE: u64 = 500;

pub(super) fn create_job(records: &dyn Changes, job: &Job, study: Option<&Study>) -> Result<(), StoreError> {
    if records.job(&job.id)?.is_some() {
        return Err(StoreError::AlreadyExists { resource: format!("job {}", job.id) });
    }
    if let Some(study) = study {
        create_study(records, study)?;
    }
    records.put_job(job)
}

pub(super) fn create_study(records: &dyn Changes, study: &Study) -> Result<(), StoreError> {
    if records.study(&study.id)?.is_some() {
        return Err(StoreError::AlreadyExists { resource: format!("study {}", study.id) });
    }
    // Leftovers of an interrupted deletion of a namesake.
    while remove_remains(records, &study.id)? {}
    records.put_study(study)
}

pub(super) fn add_copied(records: &dyn Changes, copied: &CopiedRecords) -> Result<(), StoreError> {
    match copied {
        CopiedRecords::Job(job) => create_job(records, job, None),
        CopiedRecords::Study { study, summary } => {
            create_study(records, study)?;
            summary.iter().try_for_each(|summary| records.put_summary(&study.id, SummaryKind::Figures, summary))
        }
        CopiedRecords::Trials { study, trials } => {
            trials.iter().try_for_each(|trial| records.put_trial(study, trial, None))
        }
        CopiedRecords::Measurements { study, trial, first, measurements } => {
            records.add_measurements(study, *trial, *first, measurements)
        }
    }
}

/// First step of [`super::Store::delete_study`]. Returns whether trials remain.
pub(super) fn delete_study(records: &dyn Changes, id: &StudyId) -> Result<bool, StoreError> {
    let study = queries::study(records, id)?;
    remove_study(records, id, study.next_trial_id)
}

/// Removes more trials of the deleted study `id`. Returns whether trials remain.
pub(super) fn remove_remains(records: &dyn Changes, id: &StudyId) -> Result<bool, StoreError> {
    match records.remains(id)? {
        Some(next) => remove_study(records, id, next),
        None => Ok(false),
    }
}

/// Removes the study and the last of its trials below `next`. Returns whether trials remain.
fn remove_study(records: &dyn Changes, id: &StudyId, next: TrialId) -> Result<bool, StoreError> {
    let first = TrialId(next.0.saturating_sub(REMOVED_AT_ONCE)).max(TrialId::FIRST);
    records.remove_trials(id, first, next)?;
    let remains = (first > TrialId::FIRST).then_some(first);
    records.put_remains(id, remains)?;
    Ok(remains.is_some())
}

/// Also returns whether the state is new.
pub(super) fn change_job(records: &dyn Changes, id: &JobId, change: JobChange) -> Result<(Job, bool), StoreError> {
    let before = queries::job(records, id)?;
    let mut job = before.clone();
    let (is_retry, is_extension) =
        (matches!(change, JobChange::Retry { .. }), matches!(change, JobChange::Extend { max_trials: Some(_), .. }));
    job.apply(change)?;
    if let Some(study) = job.study.as_ref().filter(|_| is_retry || is_extension) {
        reopen_study(records, study, is_retry)?;
    }
    if job != before {
        records.put_job(&job)?;
    }
    let is_new_state = job.state != before.state;
    Ok((job, is_new_state))
}

/// Reactivates the study of a job, retrying its failed trials if `retry` is set.
fn reopen_study(records: &dyn Changes, id: &StudyId, retry: bool) -> Result<(), StoreError> {
    change_study(records, id, StudyChange::Reopen)?;
    if !retry {
        return Ok(());
    }
    let next = queries::study(records, id)?.next_trial_id;
    for trial in (1..next.0).map(TrialId) {
        if records.trial(id, trial)?.is_some_and(|trial| trial.has_failed()) {
            let (trial, _) = change_trial(records, id, trial, TrialChange::Retry)?;
            telemetry().trials(trial.state.as_str(), 1);
        }
    }
    Ok(())
}

/// First step of [`super::Store::delete_job`]. Returns the study if trials of it remain.
pub(super) fn delete_job(records: &dyn Changes, id: &JobId) -> Result<Option<StudyId>, StoreError> {
    let job = queries::job(records, id)?;
    if !job.state.is_final() {
        return Err(StoreError::Refused(TransitionError::WrongState {
            resource: format!("job {id}"),
            state: job.state.to_string(),
            change: "delete",
        }));
    }
    let left = match job.study.clone() {
        Some(study) if delete_study(records, &study)? => Some(study),
        _ => None,
    };
    records.remove_job(id)?;
    Ok(left)
}

pub(super) fn change_study(records: &dyn Changes, id: &StudyId, change: StudyChange) -> Result<Study, StoreError> {
    let before = queries::study(records, id)?;
    let mut study = before.clone();
    study.apply(change)?;
    if study != before {
        records.put_study(&study)?;
    }
    Ok(study)
}

pub(super) fn create_trials(
    records: &dyn Changes,
    study: &StudyId,
    new: &[NewTrial],
) -> Result<Vec<Trial>, StoreError> {
    let mut study = queries::study(records, study)?;
    study.check_accepts_trials()?;
    // All trials are checked before the first write, because an in-memory store cannot roll back.
    let mut trials = Vec::with_capacity(new.len());
    for new in new {
        if new.id != study.next_trial_id {
            return Err(StoreError::TrialIdTaken { study: study.id.clone(), next: study.next_trial_id });
        }
        trials.push(study.add_trial(new.clone())?);
    }
    for (trial, new) in trials.iter().zip(new) {
        if let TrialStart::Completed(CompletedStart { measurements, .. }) = &new.start
            && !measurements.is_empty()
        {
            records.add_measurements(&study.id, trial.id, 0, measurements)?;
        }
        records.put_trial(&study.id, trial, None)?;
    }
    records.put_progress(&study)?;
    Ok(trials)
}

/// [`super::Store::change_trial`]. Also returns whether the trial's state changed.
pub(super) fn change_trial(
    records: &dyn Changes,
    study: &StudyId,
    id: TrialId,
    change: TrialChange,
) -> Result<(Trial, bool), StoreError> {
    let (mut study, before) = queries::trial_of_study(records, study, id)?;
    if before.state == TrialState::Deleted {
        return Err(StoreError::NotFound { resource: format!("trial {id} of study {}", study.id) });
    }
    let (trial, measurements) = study.change_trial(&before, change)?;
    if trial.revision == before.revision {
        return Ok((trial, false));
    }
    if !measurements.is_empty() {
        records.add_measurements(&study.id, id, before.measurement_count, &measurements)?;
    }
    records.put_trial(&study.id, &trial, Some(&before))?;
    records.put_progress(&study)?;
    let is_new_state = trial.state != before.state;
    Ok((trial, is_new_state))
}
