//! Reading, creating and deleting trials.

use jiff::Timestamp;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};

use super::{Studies, StudiesError, TrialOfStudy, completion, digests, refuse_study_of_job};
use crate::search_policy::Proposal;
use tunesmith_domain::{
    GivenResult, Measurement, NewTrial, RequestKey, Study, StudyId, Trial, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::{Store, StoreError, pages};

/// Number of a study's latest trials searched for a request key.
const KEYED_TRIALS: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct TrialPage {
    /// Trials that are not deleted.
    pub trials: Vec<Trial>,
    /// Start of the next page (exclusive); `None` on the last one.
    pub next: Option<TrialId>,
}

impl Studies {
    pub async fn trial_of_study(&self, study: &StudyId, id: TrialId) -> Result<TrialOfStudy, StudiesError> {
        let (study, trial) = self.store.trial_of_study(study, id).await?;
        if trial.state == TrialState::Deleted {
            return Err(deleted(&study.id, id).into());
        }
        Ok(TrialOfStudy { study, trial })
    }

    pub async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, StudiesError> {
        let trial = self.store.trial(study, id).await?;
        if trial.state == TrialState::Deleted { Err(deleted(study, id).into()) } else { Ok(trial) }
    }

    /// Up to `limit` trials of `study` with numbers above `after`, by number.
    pub async fn trial_page(&self, study: &StudyId, after: TrialId, limit: usize) -> Result<TrialPage, StudiesError> {
        let mut trials = self.store.trials(study, Some(after), limit).await?;
        // A partial page is the last one.
        let next = trials.last().filter(|_| trials.len() >= limit).map(|last| last.id);
        trials.retain(|trial| trial.state != TrialState::Deleted);
        Ok(TrialPage { trials, next })
    }

    /// Existing trials with these numbers.
    pub async fn trials_numbered(
        &self,
        study: &StudyId,
        numbers: impl IntoIterator<Item = TrialId>,
    ) -> Result<Vec<Trial>, StudiesError> {
        let mut trials = Vec::new();
        for number in numbers {
            match self.trial(study, number).await {
                Ok(trial) => trials.push(trial),
                // Deleted since its number was read.
                Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(trials)
    }

    /// Up to `limit` unfinished trials, by number.
    pub async fn unfinished_trials(&self, study: &StudyId, limit: usize) -> Result<Vec<Trial>, StudiesError> {
        Ok(self.store.open_trials(study, None, limit).await?)
    }

    /// Curve measurements of a trial as read, by step and elapsed time.
    pub async fn measurements(&self, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, StudiesError> {
        let mut curve = pages::curve(&*self.store, study, trial).await?;
        curve.sort_by(Measurement::curve_order);
        Ok(curve)
    }

    /// The last `limit` measurements of a trial as read, without those of other folders, by step and elapsed time.
    pub async fn latest_measurements(
        &self,
        study: &StudyId,
        trial: &Trial,
        limit: usize,
    ) -> Result<Vec<Measurement>, StudiesError> {
        let from = trial.measurement_count.saturating_sub(limit as u64);
        let mut latest = self.store.measurements(study, trial.id, from, limit).await?;
        trial.metric_folders.retain_curves(&mut latest);
        latest.sort_by(Measurement::curve_order);
        Ok(latest)
    }

    /// Adds a user-supplied trial: queued for the next requesting client, or completed if `result` is given.
    /// Idempotent: a repeated `request_key` returns the trial it created, if among the latest.
    ///
    /// # Errors
    /// [`StudiesError::ForeignPoint`], [`StudiesError::MissingMetric`], [`StudiesError::NoMeasurement`],
    /// [`StudiesError::NoCompleteMeasurement`], [`StudiesError::OfJob`], [`StoreError::NotFound`]; [`StoreError::Refused`] if the study is not active or the key belongs to a different
    /// request.
    pub async fn create_trial(
        &self,
        id: &StudyId,
        parameters: ParameterValues,
        result: Option<GivenResult>,
        request_key: Option<String>,
    ) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        let request_key = request_key.map(|key| request_of_trial(key, &parameters, result.as_ref()));
        let start = |study: &Study| {
            study.problem.search_space().check(&parameters).map_err(StudiesError::ForeignPoint)?;
            Ok::<_, StudiesError>(match result.clone() {
                None => TrialStart::Requested,
                Some(given) => TrialStart::Completed(completion::given(study, given)?),
            })
        };
        let trial = UserTrial { parameters: parameters.clone(), client_id: String::new(), request_key };
        let added = add_trial(&*self.store, id, trial, self.clock.now(), start).await?;
        drop(self.summaries.follow(&self.store, &added.study, added.trial.revision));
        Ok(added)
    }

    /// Next point of the search, without creating a trial; `None` if the space is exhausted.
    ///
    /// # Errors
    /// [`StudiesError::OfJob`], [`StudiesError::NoSuggestion`].
    pub async fn propose(&self, id: &StudyId) -> Result<Option<ParameterValues>, StudiesError> {
        refuse_study_of_job(id)?;
        Ok(match self.policy.propose(id).await? {
            Proposal::Trial { parameters, .. } => Some(parameters),
            Proposal::Exhausted => None,
        })
    }

    /// Adds a user-supplied trial that `client_id` runs.
    ///
    /// # Errors
    /// As [`Self::create_trial`].
    pub async fn start_trial(
        &self,
        id: &StudyId,
        parameters: ParameterValues,
        client_id: &str,
    ) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        let start = |study: &Study| {
            study.problem.search_space().check(&parameters).map_err(StudiesError::ForeignPoint)?;
            Ok::<_, StudiesError>(TrialStart::Started { lease: None })
        };
        let trial = UserTrial { parameters: parameters.clone(), client_id: client_id.to_owned(), request_key: None };
        add_trial(&*self.store, id, trial, self.clock.now(), start).await
    }

    /// Deletes a trial. Later suggestions ignore its result; its number is not reused.
    pub async fn delete_trial(&self, study: &StudyId, id: TrialId) -> Result<(), StudiesError> {
        refuse_study_of_job(study)?;
        self.trial(study, id).await?;
        self.store.change_trial(study, id, TrialChange::Delete { at: self.clock.now() }).await?;
        self.stopping.forget(study);
        Ok(())
    }
}

/// A trial that a user supplies.
#[derive(Debug, Clone)]
pub struct UserTrial {
    pub parameters: ParameterValues,
    /// Owner; empty for a trial that no client runs.
    pub client_id: String,
    pub request_key: Option<RequestKey>,
}

/// Adds a user-supplied trial in the state chosen by `start`, which may refuse. Idempotent: a repeated `request_key`
/// returns the trial it created, if among the latest.
///
/// # Errors
/// Those of `start`; [`StoreError::NotFound`]; [`StoreError::Refused`] if the study is not active or the key belongs to
/// a different request.
pub async fn add_trial<E: From<StoreError>>(
    store: &dyn Store,
    study: &StudyId,
    UserTrial { parameters, client_id, request_key }: UserTrial,
    create_time: Timestamp,
    start: impl Fn(&Study) -> Result<TrialStart, E> + Send,
) -> Result<TrialOfStudy, E> {
    loop {
        let study = store.study(study).await?;
        if let Some(key) = &request_key
            && let Some(trial) = created_by(store, &study, &key.key).await?
        {
            trial.has_recorded(key).map_err(StoreError::from)?;
            if trial.state == TrialState::Deleted {
                return Err(deleted(&study.id, trial.id).into());
            }
            return Ok(TrialOfStudy { study, trial });
        }
        let trial = NewTrial {
            id: study.next_trial_id,
            parameters: parameters.clone(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: client_id.clone(),
            start: start(&study)?,
            create_time,
            request_key: request_key.clone(),
        };
        match store.create_trial(&study.id, trial).await {
            // A suggestion's trial, committed meanwhile, has taken this number.
            Err(StoreError::TrialIdTaken { .. }) => {}
            created => return Ok(TrialOfStudy { trial: created?, study }),
        }
    }
}

/// Request that adds a trial with these `parameters` and `result`.
pub fn request_of_trial(key: String, parameters: &ParameterValues, result: Option<&GivenResult>) -> RequestKey {
    RequestKey { key, content: digests::of_trial(parameters, result) }
}

/// The latest trial created with this request key, if any.
async fn created_by(store: &dyn Store, study: &Study, key: &str) -> Result<Option<Trial>, StoreError> {
    let before = TrialId(study.next_trial_id.0.saturating_sub(1).saturating_sub(KEYED_TRIALS as u64));
    let latest = store.trials(&study.id, Some(before), KEYED_TRIALS).await?;
    Ok(latest.into_iter().rev().find(|trial| trial.request_keys.first().is_some_and(|first| first.key == key)))
}

fn deleted(study: &StudyId, id: TrialId) -> StoreError {
    StoreError::NotFound { resource: format!("trial {id} of study {study}") }
}
