//! Giving trials out.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::try_join_all;
use tunesmith_algorithms::problem::TrialSuggestion;

use super::{Optimizer, OptimizerError, PAGE, refuse_study_of_job};
use crate::domain::{NewTrial, Study, StudyChange, StudyId, StudyState, Trial, TrialChange, TrialStart, TrialState};
use crate::store::StoreError;

/// After so many suggestions in a row for which a study's algorithm failed, the study gives up.
const MAX_FAILURES: u32 = 5;

/// A request for trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestionRequest {
    /// Who asks.
    pub client_id: String,
    /// How many trials it shall have in all.
    pub count: NonZeroUsize,
    /// How long it may be silent; `None`: as long as the study says.
    pub lease: Option<Duration>,
}

/// What a client gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggested {
    /// Its trials; fewer than it asked for if there are no more.
    pub trials: Vec<Trial>,
    /// Where the study stands.
    pub study_state: StudyState,
}

impl Optimizer {
    /// Gives a client its trials: those it has already, then queued ones, then new ones.
    ///
    /// # Errors
    /// [`OptimizerError`]; trials that were given before the error stay the client's.
    pub async fn suggest(&self, id: &StudyId, request: &SuggestionRequest) -> Result<Suggested, OptimizerError> {
        refuse_study_of_job(id)?;
        let _turn = self.turns.take(id).await;
        let mut study = self.store.study(id).await?;
        let lease = request.lease.or(study.trial_lease);
        let (mut own, queued) = self.open_trials(id, &request.client_id).await?;
        own.truncate(request.count.get());
        let at = self.clock.now();
        let renewed = own.into_iter().map(|trial| async move {
            let renew = TrialChange::Renew { attempt: trial.attempt, at };
            if trial.lease.is_some() { self.store.change_trial(id, trial.id, renew).await } else { Ok(trial) }
        });
        // At once, so that they may share a commit.
        let mut trials = try_join_all(renewed).await?;
        let assigned = queued.into_iter().take(request.count.get() - trials.len()).map(|trial| {
            let assign = TrialChange::Assign { client_id: request.client_id.clone(), lease, at };
            self.store.change_trial(id, trial.id, assign)
        });
        trials.extend(try_join_all(assigned).await?);
        while let Some(missing) = NonZeroUsize::new(request.count.get() - trials.len()) {
            if study.state != StudyState::Active {
                break;
            }
            let (new, after) = self.new_trials(study, missing, &request.client_id, lease).await?;
            study = after;
            trials.extend(new);
        }
        Ok(Suggested { trials, study_state: study.state })
    }

    /// The trials of `client`, and those of nobody.
    async fn open_trials(&self, id: &StudyId, client: &str) -> Result<(Vec<Trial>, Vec<Trial>), OptimizerError> {
        let (mut own, mut queued) = (Vec::new(), Vec::new());
        let mut after = None;
        loop {
            let page = self.store.open_trials(id, after, PAGE).await?;
            after = page.last().map(|trial| trial.id);
            let is_last = page.len() < PAGE;
            for trial in page {
                if trial.state == TrialState::Requested {
                    queued.push(trial);
                } else if trial.client_id == client {
                    own.push(trial);
                }
            }
            if is_last {
                return Ok((own, queued));
            }
        }
    }

    /// Up to `count` new trials, all of them in one transaction, and the study as it is then. Without any, the study
    /// is no longer active or another process has been faster.
    async fn new_trials(
        &self,
        study: Study,
        count: NonZeroUsize,
        client_id: &str,
        lease: Option<Duration>,
    ) -> Result<(Vec<Trial>, Study), OptimizerError> {
        let left = study.max_trials.map(|most| most.saturating_sub(study.next_trial_id.0.saturating_sub(1)));
        let left = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let Some(count) = NonZeroUsize::new(count.get().min(left)) else {
            return Ok((Vec::new(), self.finish(&study, "the maximal number of trials is reached").await?));
        };
        let suggestions = self.policy.suggest(&study.id, count).await?;
        let study = self.judge_failure(study, suggestions.failure).await?;
        if study.state != StudyState::Active {
            return Ok((Vec::new(), study));
        }
        let exhausted = suggestions.points.len() < count.get();
        let mut id = suggestions.first_id;
        let mut new = Vec::with_capacity(suggestions.points.len());
        for TrialSuggestion { parameters, origin } in suggestions.points {
            new.push(NewTrial {
                id,
                parameters,
                origin: Some(origin),
                client_id: client_id.to_owned(),
                start: TrialStart::Begun { lease },
                create_time: self.clock.now(),
            });
            id = id.offset(1);
        }
        let trials = match self.store.create_trials(&study.id, new).await {
            Ok(trials) => trials,
            Err(StoreError::TrialIdTaken { .. }) => return Ok((Vec::new(), self.store.study(&study.id).await?)),
            Err(error) => return Err(error.into()),
        };
        let study = if exhausted {
            self.finish(&study, "search space exhausted").await?
        } else {
            self.store.study(&study.id).await?
        };
        Ok((trials, study))
    }

    async fn finish(&self, study: &Study, reason: &str) -> Result<Study, OptimizerError> {
        let change = StudyChange::Complete { reason: reason.to_owned() };
        Ok(self.store.change_study(&study.id, change).await?)
    }

    /// Counts the failures of a study's algorithm, and ends the study when there are too many in a row.
    async fn judge_failure(&self, study: Study, failure: Option<String>) -> Result<Study, OptimizerError> {
        let Some(failure) = failure else {
            self.failures.forget(&study.id);
            return Ok(study);
        };
        let failures = self.failures.count(&study.id);
        tracing::error!(study.name = %study.id, failures, error = failure, "a search algorithm failed");
        if failures < MAX_FAILURES {
            return Ok(study);
        }
        let reason = format!("the search algorithm failed {failures} times in a row: {failure}");
        Ok(self.store.change_study(&study.id, StudyChange::Deactivate { reason }).await?)
    }
}

/// How often each study's algorithm has failed in a row.
#[derive(Debug, Default)]
pub(super) struct AlgorithmFailures(Mutex<HashMap<StudyId, u32>>);

impl AlgorithmFailures {
    /// Counts one more, and returns the count.
    fn count(&self, study: &StudyId) -> u32 {
        let mut counts = self.counts();
        let count = counts.entry(study.clone()).or_default();
        *count += 1;
        *count
    }

    /// Begins at 0 again.
    pub(super) fn forget(&self, study: &StudyId) {
        self.counts().remove(study);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<StudyId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
