//! Reading, creating and deleting trials.

use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use super::{ReportedOutcome, Studies, StudiesError, TrialOfStudy, completion, refuse_study_of_job, request_content};
use crate::pages;
use tunesmith_domain::{Measurement, NewTrial, RequestKey, Study, StudyId, Trial, TrialChange, TrialStart, TrialState};
use tunesmith_store::{Store, StoreError};

/// Number of a study's latest trials that are searched for one that an earlier request with the same key created.
const KEYED_TRIALS: usize = 1000;

/// A part of a study's trials.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialPage {
    /// The trials that are not deleted.
    pub trials: Vec<Trial>,
    /// The number after which the next page begins; `None` if this is the last one.
    pub next: Option<TrialId>,
}

impl Studies {
    /// The trial `id` of `study`, with its study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<TrialOfStudy, StudiesError> {
        let (study, trial) = self.store.trial_of_study(study, id).await?;
        if trial.state == TrialState::Deleted {
            return Err(deleted(&study.id, id));
        }
        Ok(TrialOfStudy { study, trial })
    }

    /// The trial `id` of `study`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StudiesError> {
        let trial = self.store.trial(study, id).await?;
        if trial.state == TrialState::Deleted { Err(deleted(study, id)) } else { Ok(trial) }
    }

    /// Up to `limit` trials of `study` with numbers above `after`, in the order of their numbers.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn trial_page(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<TrialPage, StudiesError> {
        let mut trials = self.store.trials(study, Some(after), limit).await?;
        // A page that is not full is the last one.
        let next = trials.last().filter(|_| trials.len() >= limit).map(|last| last.id);
        trials.retain(|trial| trial.state != TrialState::Deleted);
        Ok(TrialPage { trials, next })
    }

    /// The trials of `study` with these `numbers` that exist.
    ///
    /// # Errors
    /// [`StudiesError::Store`].
    pub async fn trials_numbered(
        &self,
        study: &StudyId,
        numbers: impl IntoIterator<Item = TrialId>,
    ) -> Result<Vec<Trial>, StudiesError> {
        let mut trials = Vec::new();
        for number in numbers {
            match self.trial(study, number).await {
                Ok(trial) => trials.push(trial),
                // It was deleted since its number was read.
                Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(trials)
    }

    /// The trials of `study` that have not ended, by number, at most `limit` of them.
    ///
    /// # Errors
    /// [`StudiesError::Store`].
    pub async fn unfinished_trials(&self, study: &StudyId, limit: usize) -> Result<Vec<Trial>, StudiesError> {
        Ok(self.store.open_trials(study, None, limit).await?)
    }

    /// The measurements of the curves of a trial as it was read, by step and elapsed time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn measurements(&self, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, StudiesError> {
        let mut curve = pages::curve(&*self.store, study, trial).await?;
        curve.sort_by(Measurement::curve_order);
        Ok(curve)
    }

    /// Adds a user-supplied trial, which is given to the next client that requests a trial; with `result`, a completed
    /// trial. If a request with the same `request_key` created one of the study's latest trials, that trial is returned.
    ///
    /// # Errors
    /// [`StudiesError::ForeignPoint`], [`StudiesError::MissingMetric`], [`StudiesError::OfJob`],
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the study is not active or the key was used for another
    /// request.
    pub async fn create_trial(
        &self,
        id: &StudyId,
        parameters: ParameterValues,
        result: Option<ReportedOutcome>,
        request_key: Option<String>,
    ) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(id)?;
        let request_key = request_key.map(|key| request_of_trial(key, &parameters, result.as_ref()));
        let _entered = self.study_queues.enter(id).await;
        loop {
            let study = self.store.study(id).await?;
            if let Some(key) = &request_key
                && let Some(trial) = created_by(&*self.store, &study, &key.key).await?
            {
                trial.has_recorded(key).map_err(StoreError::from)?;
                // Not found if it was deleted since.
                let trial = self.trial(id, trial.id).await?;
                return Ok(TrialOfStudy { study, trial });
            }
            study.problem.search_space().check(&parameters).map_err(StudiesError::ForeignPoint)?;
            let start = match result.clone() {
                None => TrialStart::Requested,
                Some(outcome) => TrialStart::Completed(completion::completion(&study, &[], outcome)?),
            };
            let trial = NewTrial {
                id: study.next_trial_id,
                parameters: parameters.clone(),
                origin: None,
                fallback_reason: None,
                client_id: String::new(),
                start,
                create_time: self.clock.now(),
                request_key: request_key.clone(),
            };
            match self.store.create_trial(id, trial).await {
                // The trial of a suggestion, which was on its way to the store, has this number now.
                Err(StoreError::TrialIdTaken { .. }) => {}
                created => {
                    let trial = created?;
                    drop(self.summaries.follow(&self.store, &study, trial.revision));
                    return Ok(TrialOfStudy { trial, study });
                }
            }
        }
    }

    /// Deletes a trial. Later suggestions do not use its result; its number is not given again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`].
    pub async fn delete_trial(&self, study: &StudyId, id: TrialId) -> Result<(), StudiesError> {
        refuse_study_of_job(study)?;
        self.trial(study, id).await?;
        self.store.change_trial(study, id, TrialChange::Delete { at: self.clock.now() }).await?;
        self.stopping.forget(study);
        Ok(())
    }
}

/// The request with the idempotency key `key` that adds a trial with these `parameters` and this `result`.
pub(crate) fn request_of_trial(
    key: String,
    parameters: &ParameterValues,
    result: Option<&ReportedOutcome>,
) -> RequestKey {
    RequestKey { key, content: request_content::of_trial(parameters, result) }
}

/// The one of the latest trials of `study` that a request with this key created.
pub(crate) async fn created_by(store: &dyn Store, study: &Study, key: &str) -> Result<Option<Trial>, StoreError> {
    let before = TrialId(study.next_trial_id.0.saturating_sub(1).saturating_sub(KEYED_TRIALS as u64));
    let latest = store.trials(&study.id, Some(before), KEYED_TRIALS).await?;
    Ok(latest.into_iter().rev().find(|trial| trial.request_keys.first().is_some_and(|first| first.key == key)))
}

fn deleted(study: &StudyId, id: TrialId) -> StudiesError {
    StoreError::NotFound { resource: format!("trial {id} of study {study}") }.into()
}
