//! Suggestions: assigning trials to clients.

mod contexts;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::task::Poll;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::{join, join_all};
use parking_lot::Mutex;
use tunesmith_algorithms::problem::TrialSuggestion;

use super::SuggestionRequest;
use super::cancellation::Cancellation;
use super::keyed_queue::Entered;
use super::{Studies, StudiesError, refuse_study_of_job};
use crate::search_policy::Suggestions;
use tunesmith_domain::{
    Lease, NewTrial, Study, StudyChange, StudyId, StudyState, StudyStopping, Trial, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::{FEW, StoreError, pages};

/// Consecutive algorithm failures that deactivate a study.
const MAX_FAILURES: u32 = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct Suggested {
    /// Study after the request.
    pub study: Study,
    /// The client's unfinished trials; fewer than requested if the study has no more.
    pub trials: Vec<Trial>,
}

impl Studies {
    /// Returns a client's unfinished trials: those it owns, then queued ones, then new ones.
    ///
    /// # Errors
    /// [`StudiesError`]; trials assigned before the error remain the client's.
    pub async fn suggest(&self, id: &StudyId, request: &SuggestionRequest) -> Result<Suggested, StudiesError> {
        self.suggest_unless_cancelled(id, request, &Cancellation::default()).await
    }

    /// As [`Self::suggest`].
    ///
    /// # Errors
    /// [`StudiesError`]; [`StudiesError::Cancelled`] soon after `cancellation`.
    pub(super) async fn suggest_unless_cancelled(
        &self,
        id: &StudyId,
        request: &SuggestionRequest,
        cancellation: &Cancellation,
    ) -> Result<Suggested, StudiesError> {
        refuse_study_of_job(id)?;
        let key = (id.clone(), request.client_id.clone());
        // The client may own trials whose commit is still under way.
        let _client = cancellation.unless(id, self.client_queues.enter(&key)).await?;
        let mut entered = cancellation.unless(id, self.study_queues.enter(id)).await?;
        let (mut study, mut trials, lease) = self.known_trials(id, request).await?;
        while let Some(missing) = NonZeroUsize::new(request.count.get() - trials.len()) {
            if study.state != StudyState::Active {
                break;
            }
            if let Some(reason) = self.end_of(&study).await? {
                study = self.finish(&study, &reason).await?;
                break;
            }
            let suggestions = self.policy.suggest_until(&study, missing, cancellation.interruption()).await?;
            let (new, after) = self.new_trials(entered, study, suggestions, &request.client_id, lease).await?;
            let (is_taken, is_complete) = (new.is_empty(), trials.len() + new.len() == request.count.get());
            trials.extend(new);
            study = after;
            if is_complete {
                break;
            }
            entered = cancellation.unless(id, self.study_queues.enter(id)).await?;
            if is_taken && study.state == StudyState::Active {
                (study, trials, _) = self.known_trials(id, request).await?;
            }
        }
        Ok(Suggested { study, trials })
    }

    /// The study, the trials owned by the client, queued trials now assigned to it, and its lease.
    async fn known_trials(
        &self,
        id: &StudyId,
        request: &SuggestionRequest,
    ) -> Result<(Study, Vec<Trial>, Option<Duration>), StudiesError> {
        loop {
            let (study, mut own, queued) = self.open_trials(id, &request.client_id).await?;
            let lease = request.lease.or(study.trial_lease);
            own.truncate(request.count.get());
            let (at, steady) = (self.clock.now(), self.clock.steady());
            let missing = request.count.get() - own.len();
            let renewed = own.into_iter().map(async |trial| {
                let renew = TrialChange::Renew { attempt: trial.attempt, at: steady };
                if trial.lease.is_some() { self.store.change_trial(id, trial.id, renew).await } else { Ok(trial) }
            });
            let assigned = queued.into_iter().take(missing).map(async |trial| {
                let lease = lease.map(|duration| Lease::starting(duration, steady));
                let assign = TrialChange::Assign { client_id: request.client_id.clone(), lease, at };
                self.store.change_trial(id, trial.id, assign).await
            });
            // Concurrently, to share a commit.
            let (renewed, assigned) = join(join_all(renewed), join_all(assigned)).await;
            let mut trials = Vec::with_capacity(renewed.len() + assigned.len());
            let mut is_outdated = false;
            for changed in renewed.into_iter().chain(assigned) {
                match changed {
                    Ok(trial) => trials.push(trial),
                    // Completed or deleted since it was read.
                    Err(StoreError::Refused(_) | StoreError::NotFound { .. }) => is_outdated = true,
                    Err(error) => return Err(error.into()),
                }
            }
            if !is_outdated {
                return Ok((study, trials, lease));
            }
        }
    }

    /// The study, the unfinished trials of `client`, and the queued ones.
    pub(super) async fn open_trials(
        &self,
        id: &StudyId,
        client: &str,
    ) -> Result<(Study, Vec<Trial>, Vec<Trial>), StudiesError> {
        // Reading the study no later than the trials makes a concurrent assignment by another server visible as a
        // number conflict.
        let (study, mut trials) = self.store.study_and_open_trials(id, None, FEW).await?;
        if trials.len() == FEW {
            let rest = pages::open_trials_after(&*self.store, id, trials.last().map(|last| last.id));
            trials.extend(rest.try_collect::<Vec<_>>().await?);
        }
        let (mut own, mut queued) = (Vec::new(), Vec::new());
        for trial in trials {
            if trial.state == TrialState::Requested {
                queued.push(trial);
            } else if trial.client_id == client {
                own.push(trial);
            }
        }
        Ok((study, own, queued))
    }

    /// Creates the trials of `suggestions` in one transaction, and returns them with the updated study. Returns none if
    /// the study is no longer active or another process took the numbers.
    ///
    /// Leaves the study's queue once the commit is under way: the search policy counts the trials as pending, so the
    /// next suggestion can be computed meanwhile.
    async fn new_trials(
        &self,
        entered: Entered<'_, StudyId>,
        study: Study,
        suggestions: Suggestions,
        client_id: &str,
        lease: Option<Duration>,
    ) -> Result<(Vec<Trial>, Study), StudiesError> {
        let study = self.count_failure(study, suggestions.failure.as_deref()).await?;
        if study.state != StudyState::Active {
            self.policy.release(&study.id, suggestions.reservation).await;
            return Ok((Vec::new(), study));
        }
        if !self.store.keeps_order() && suggestions.first_id != study.next_trial_id {
            // Another server has added trials since the study was read.
            self.policy.release(&study.id, suggestions.reservation).await;
            return Ok((Vec::new(), self.store.study(&study.id).await?));
        }
        let mut id = suggestions.first_id;
        let mut new = Vec::with_capacity(suggestions.points.len());
        for TrialSuggestion { parameters, origin } in suggestions.points {
            new.push(NewTrial {
                id,
                parameters,
                origin: Some(origin),
                fallback_reason: suggestions.failure.clone(),
                fixed_parameters: Vec::new(),
                client_id: client_id.to_owned(),
                start: TrialStart::Started {
                    lease: lease.map(|duration| Lease::starting(duration, self.clock.steady())),
                },
                create_time: self.clock.now(),
                request_key: None,
            });
            id = id.offset(1);
        }
        let created = if new.is_empty() {
            drop(entered);
            Ok(Vec::new())
        } else {
            let mut creation = self.store.create_trials(&study.id, new);
            if self.store.keeps_order() {
                match futures::poll!(&mut creation) {
                    Poll::Ready(created) => created,
                    Poll::Pending => {
                        drop(entered);
                        creation.await
                    }
                }
            } else {
                let created = creation.await;
                drop(entered);
                created
            }
        };
        let trials = match created {
            Ok(trials) => trials,
            Err(error) => {
                self.policy.release(&study.id, suggestions.reservation).await;
                if matches!(error, StoreError::TrialIdTaken { .. }) {
                    return Ok((Vec::new(), self.store.study(&study.id).await?));
                }
                return Err(error.into());
            }
        };
        let study = match suggestions.end {
            Some(end) => self.finish(&study, end.as_str()).await?,
            None => study,
        };
        Ok((trials, study))
    }

    /// Why the study gets no further trials by its rules; `None` if it does.
    async fn end_of(&self, study: &Study) -> Result<Option<String>, StudiesError> {
        if study.study_stopping == StudyStopping::default() {
            return Ok(None);
        }
        let end = self.ends.get_or_insert(&study.id, 0, Default::default);
        let reason = end.lock().await.reason(&*self.store, study, self.clock.now()).await?;
        Ok(reason)
    }

    async fn finish(&self, study: &Study, reason: &str) -> Result<Study, StudiesError> {
        let change = StudyChange::Complete { reason: reason.to_owned() };
        Ok(self.store.change_study(&study.id, change).await?)
    }

    /// Counts algorithm failures, and deactivates the study after [`MAX_FAILURES`] in a row.
    async fn count_failure(&self, study: Study, failure: Option<&str>) -> Result<Study, StudiesError> {
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

/// Consecutive algorithm failures by study.
#[derive(Debug, Default)]
pub(super) struct AlgorithmFailures(Mutex<HashMap<StudyId, u32>>);

impl AlgorithmFailures {
    /// Increments and returns the count.
    fn count(&self, study: &StudyId) -> u32 {
        let mut counts = self.0.lock();
        let count = counts.entry(study.clone()).or_default();
        *count += 1;
        *count
    }

    /// Resets the count.
    pub(super) fn forget(&self, study: &StudyId) {
        self.0.lock().remove(study);
    }
}
