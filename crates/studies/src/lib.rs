#![doc = include_str!("../README.md")]

mod cancellation;
pub mod clock;
mod completion;
mod digests;
pub mod early_stopping;
mod figures;
mod filter;
mod keyed_queue;
mod leases;
pub mod measurements;
mod memory;
mod number_set;
mod operations;
mod optimal;
mod pending;
mod reports;
pub mod search_policy;
mod source_studies;
mod study_cache;
pub mod study_end;
mod suggestion;
mod summaries;
mod trend;
mod trials;
mod views;

use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tunesmith_algorithms::problem::{ParameterValues, TrialId, ValueError};

use self::cancellation::Cancellations;
use self::early_stopping::StoppingRules;
pub use self::figures::{EndedFigures, MAX_POINTS, StudyFigures};
pub use self::filter::StudyFilter;
use self::keyed_queue::KeyedQueues;
use self::leases::Presence;
use self::operations::SuggestionOperations;
pub use self::operations::SuggestionProgress;
pub use self::pending::PendingSuggestions;
pub use self::source_studies::NamedStudies;
use self::suggestion::AlgorithmFailures;
pub use self::suggestion::Suggested;
use self::summaries::Summaries;
pub use self::trials::TrialPage;
pub use self::trials::{UserTrial, add_trial, request_of_trial};
use self::views::StudyViews;
pub use self::views::ViewedColumns;
use crate::clock::Clock;
use crate::search_policy::{SearchPolicy, SearchPolicyError};
use crate::study_cache::StudyCache;
use crate::study_end::EndedTrials;
use tunesmith_domain::{
    Code, Metadata, NewNote, Refusal, ReportedOutcome, Study, StudyChange, StudyId, StudyState, SuggestionOperation,
    SuggestionRequest, Trial, TrialChange,
};
use tunesmith_store::{Documents, Store, StoreError, pages};
pub use tunesmith_views::{most_at_once, running_at_once};

/// Number of changes whose trials tell when a study was last active. A guess: changes that are no activity, such as
/// deletions of old trials, are rarely that many.
const LAST_CHANGES: u64 = 100;

/// Why a request about a study failed. Nothing was changed, unless the store reports an unknown outcome.
#[derive(Debug, thiserror::Error)]
pub enum StudiesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoSuggestion(SearchPolicyError),
    #[error("study {0}: the suggestion was cancelled")]
    Cancelled(StudyId),
    /// Only the job's runner may change the trials of its study.
    #[error("study {0} belongs to a job: its trials are run by the service")]
    OfJob(StudyId),
    /// A computation panicked, or was cut off by the end of the process.
    #[error("a computation for study {study} was interrupted")]
    Interrupted {
        study: StudyId,
        #[source]
        source: tokio::task::JoinError,
    },
    /// Pending suggestions could not be stored or read.
    #[error("pending suggestions cannot be stored or read")]
    Pending(#[source] std::io::Error),
    #[error("the parameters are outside the study's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// Every point with the parameters of a context was tried.
    #[error("context {context} has no other point: every one with {} was tried", assignments(.fixed))]
    NoPointLeft {
        /// Index of the context in the request.
        context: usize,
        fixed: ParameterValues,
    },
    /// A result lacks a metric of the study.
    #[error(
        "metric {metric:?} is missing: the measurement has {}; the study's metrics are {}",
        quoted(seen),
        quoted(expected)
    )]
    MissingMetric {
        metric: String,
        seen: Vec<String>,
        /// Required metrics.
        expected: Vec<String>,
    },
    /// Completion from measurements, but there are none.
    #[error("trial {0} has no measurement: give finalMeasurement, add a measurement, or set trialInfeasible")]
    NoMeasurement(TrialId),
    /// Completion from measurements, but none has all metrics.
    #[error(
        "no measurement of trial {trial} has all metrics of the study: the measurements have {}; the study's metrics \
         are {}",
        quoted(seen),
        quoted(expected)
    )]
    NoCompleteMeasurement {
        trial: TrialId,
        seen: Vec<String>,
        /// Required metrics.
        expected: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

fn assignments(values: &ParameterValues) -> String {
    let texts: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    texts.join(", ")
}

impl From<SearchPolicyError> for StudiesError {
    fn from(error: SearchPolicyError) -> Self {
        match error {
            SearchPolicyError::Store(error) => Self::Store(error),
            SearchPolicyError::Cancelled(study) => Self::Cancelled(study),
            error => Self::NoSuggestion(error),
        }
    }
}

impl From<StudiesError> for Refusal {
    fn from(error: StudiesError) -> Self {
        Self::from(&error)
    }
}

impl From<&StudiesError> for Refusal {
    fn from(error: &StudiesError) -> Self {
        match error {
            StudiesError::Store(error) => error.into(),
            StudiesError::Interrupted { .. } => {
                tracing::error!(error = error as &dyn std::error::Error, "a computation was interrupted");
                Self::new(Code::Internal, error.to_string())
            }
            StudiesError::Cancelled(_) => Self::new(Code::Cancelled, error.to_string()),
            StudiesError::NoSuggestion(SearchPolicyError::TooLong { .. }) => {
                Self::new(Code::DeadlineExceeded, error.to_string())
            }
            StudiesError::NoSuggestion(_) => {
                tracing::error!(error = error as &dyn std::error::Error, "no suggestion could be computed");
                Self::new(Code::Internal, error.to_string())
            }
            StudiesError::Pending(_) => {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "a suggestion cannot be continued after a restart"
                );
                Self::new(Code::Unavailable, error.to_string())
            }
            StudiesError::OfJob(_)
            | StudiesError::NoMeasurement(_)
            | StudiesError::NoCompleteMeasurement { .. }
            | StudiesError::NoPointLeft { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            StudiesError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            StudiesError::MissingMetric { .. } => Self::invalid("finalMeasurement.metrics", error.to_string()),
        }
    }
}

/// A trial, and the attempt whose owner sends the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRef {
    pub study: StudyId,
    pub trial: TrialId,
    /// `None` for the first attempt.
    pub attempt: Option<u64>,
}

impl TrialRef {
    /// Attempt whose owner sends the request, given the current `trial`.
    fn attempt_at(&self, trial: &Trial) -> u64 {
        // A trial at attempt 0 was never assigned to a client; its user runs it.
        self.attempt.unwrap_or(trial.attempt.min(1))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrialOfStudy {
    pub study: Study,
    pub trial: Trial,
}

/// Use cases of studies whose users run the trials themselves.
///
/// A missing study or trial is [`StoreError::NotFound`]; changing a study of a job is [`StudiesError::OfJob`].
pub struct Studies {
    store: Arc<dyn Store>,
    policy: Arc<SearchPolicy>,
    clock: Arc<dyn Clock>,
    /// Serializes the computation of suggestions per study, but not their commits.
    study_queues: KeyedQueues<StudyId>,
    /// Serializes suggestion requests per client of a study.
    client_queues: KeyedQueues<(StudyId, String)>,
    failures: AlgorithmFailures,
    stopping: StoppingRules,
    ends: StudyCache<tokio::sync::Mutex<EndedTrials>>,
    operations: SuggestionOperations,
    cancellations: Cancellations,
    summaries: Summaries,
    views: StudyViews,
    pending: PendingSuggestions,
    presence: Presence,
    /// Whether the next suggestion is computed in the background after a completion.
    prepares: bool,
}

impl Studies {
    pub fn new(store: Arc<dyn Store>, policy: Arc<SearchPolicy>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            policy,
            clock,
            study_queues: KeyedQueues::default(),
            client_queues: KeyedQueues::default(),
            failures: AlgorithmFailures::default(),
            stopping: StoppingRules::default(),
            ends: StudyCache::default(),
            operations: SuggestionOperations::default(),
            cancellations: Cancellations::default(),
            summaries: Summaries::default(),
            views: StudyViews::default(),
            pending: PendingSuggestions::default(),
            presence: Presence::default(),
            prepares: true,
        }
    }

    /// Computes nothing in the background: no computation outlives the call that needs it.
    #[must_use]
    pub fn without_preparation(self) -> Self {
        Self { prepares: false, ..self }
    }

    /// Shares the studies, including background suggestions, with other servers through `documents`.
    #[must_use]
    pub fn with_servers(self, documents: Arc<dyn Documents>) -> Self {
        let pending = PendingSuggestions::shared(Arc::clone(&documents));
        Self { pending, presence: Presence::of_servers(documents), ..self }
    }

    /// Persists background suggestions in `pending`, for [`Self::resume_suggestions`] of the next process. Otherwise
    /// they end with the process.
    #[must_use]
    pub fn with_pending(self, pending: PendingSuggestions) -> Self {
        Self { pending, ..self }
    }

    /// Adds a study and returns it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    pub async fn create_study(&self, study: Study) -> Result<Study, StudiesError> {
        self.store.create_study(study.clone()).await?;
        Ok(study)
    }

    pub async fn study(&self, id: &StudyId) -> Result<Study, StudiesError> {
        Ok(self.store.study(id).await?)
    }

    /// Filters and maps studies that belong to no job, by ID; `parent` restricts them to a project and location.
    pub async fn pick<T>(
        &self,
        parent: Option<(&str, &str)>,
        mut pick: impl FnMut(Study) -> Option<T> + Send,
    ) -> Result<Vec<T>, StudiesError> {
        let mut studies = std::pin::pin!(pages::studies(&*self.store, parent));
        let mut picked = Vec::new();
        while let Some(study) = studies.try_next().await? {
            picked.extend(pick(study));
        }
        Ok(picked)
    }

    /// Raises the maximum number of trials, which reactivates the study. `config` is the updated configuration, in the
    /// format used at creation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the number does not grow, or the
    /// study has none.
    pub async fn extend_study(&self, id: &StudyId, max_trials: u64, config: Value) -> Result<Study, StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        let change = StudyChange::Extend { max_trials, config: Arc::new(config) };
        Ok(self.store.change_study(id, change).await?)
    }

    /// Ends a study, or lets it accept requests again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] between two ended states.
    pub async fn set_state(&self, id: &StudyId, state: StudyState) -> Result<Study, StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        let reason = "set by a client".to_owned();
        let change = match state {
            StudyState::Active => StudyChange::Reopen,
            StudyState::Inactive => StudyChange::Deactivate { reason },
            StudyState::Completed => StudyChange::Complete { reason },
        };
        Ok(self.store.change_study(id, change).await?)
    }

    /// Adds metadata to a study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the study would have too much of it.
    pub async fn add_metadata(&self, id: &StudyId, metadata: Metadata) -> Result<Study, StudiesError> {
        let _entered = self.study_queues.enter(id).await;
        Ok(self.store.change_study(id, StudyChange::AddMetadata(metadata)).await?)
    }

    /// Adds metadata to a trial.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the trial would have too much of it.
    pub async fn add_metadata_of_trial(
        &self,
        study: &StudyId,
        id: TrialId,
        metadata: Metadata,
    ) -> Result<Trial, StudiesError> {
        self.trial(study, id).await?;
        Ok(self.store.change_trial(study, id, TrialChange::AddMetadata(metadata)).await?)
    }

    /// Sets or removes the note on a trial.
    ///
    /// # Errors
    /// [`StudiesError::OfJob`], [`StoreError::NotFound`]; [`StoreError::Refused`] if the note has been changed since it was read.
    pub async fn set_note(&self, study: &StudyId, id: TrialId, note: NewNote) -> Result<TrialOfStudy, StudiesError> {
        refuse_study_of_job(study)?;
        self.set_note_of_any(study, id, note).await
    }

    /// As [`Self::set_note`], also for the study of a job.
    ///
    /// # Errors
    /// As [`Self::set_note`], but [`StudiesError::OfJob`].
    pub async fn set_note_of_any(
        &self,
        study: &StudyId,
        id: TrialId,
        note: NewNote,
    ) -> Result<TrialOfStudy, StudiesError> {
        self.trial(study, id).await?;
        let trial = self.store.change_trial(study, id, TrialChange::SetNote { note, at: self.clock.now() }).await?;
        Ok(TrialOfStudy { study: self.study(study).await?, trial })
    }

    /// Deletes a study with its trials, and cancels its suggestions.
    pub async fn delete_study(&self, id: &StudyId) -> Result<(), StudiesError> {
        refuse_study_of_job(id)?;
        self.cancellations.cancel_all(id);
        let _entered = self.study_queues.enter(id).await;
        self.delete_entered(id).await
    }

    /// Deletes the studies that belong to no job, have no open trials and had no new, started or ended trial since
    /// `time`, except those that `is_used` selects. Returns the deleted ones. A study that cannot be deleted is logged,
    /// and stays.
    ///
    /// # Errors
    /// If the studies cannot be read.
    pub async fn delete_idle_since(
        &self,
        time: Timestamp,
        is_used: impl Fn(&StudyId) -> bool,
    ) -> Result<Vec<StudyId>, StudiesError> {
        let mut deleted = Vec::new();
        let older = self.pick(None, |study| (study.create_time < time).then(|| study.id.clone())).await?;
        for id in older.into_iter().filter(|id| !is_used(id)) {
            match self.delete_if_idle(&id, time).await {
                Ok(true) => deleted.push(id),
                Ok(false) | Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(study.name = %id, error, "an idle study could not be deleted after its retention");
                }
            }
        }
        Ok(deleted)
    }

    async fn delete_if_idle(&self, id: &StudyId, time: Timestamp) -> Result<bool, StudiesError> {
        let _entered = self.study_queues.enter(id).await;
        let study = self.store.study(id).await?;
        if study.create_time >= time || !self.store.open_trials(id, None, 1).await?.is_empty() {
            return Ok(false);
        }
        let last = study.revision.saturating_sub(LAST_CHANGES);
        let trials = self.store.trials_changed_since(id, last, LAST_CHANGES as usize).await?;
        let times = trials.iter().flat_map(|trial| [Some(trial.create_time), trial.start_time, trial.end_time]);
        let is_idle = times.flatten().all(|at| at < time);
        if is_idle {
            self.delete_entered(id).await?;
        }
        Ok(is_idle)
    }

    /// Deletes a study whose queue the caller has entered.
    async fn delete_entered(&self, id: &StudyId) -> Result<(), StudiesError> {
        self.store.delete_study(id).await?;
        self.policy.forget(id);
        self.failures.forget(id);
        self.stopping.forget(id);
        self.ends.remove(id);
        self.summaries.forget(id);
        self.views.forget(id);
        Ok(())
    }

    /// Optimal trials: with one metric, the best trial (the first among equals); otherwise the Pareto front, best first
    /// as in [`tunesmith_domain::best_first`]. Incremental: reads only changes since the previous call or the stored
    /// summary.
    pub async fn optimal_trials(&self, study: &Study) -> Result<Vec<TrialId>, StudiesError> {
        Ok(self.summaries.optimal(&self.store, study).await?)
    }

    /// Best results of the first metric up to each of at most 48 ranges of trial numbers, from the first result. Reads
    /// what [`Self::optimal_trials`] reads.
    pub async fn best_so_far(&self, study: &Study) -> Result<Vec<f64>, StudiesError> {
        Ok(self.summaries.best_so_far(&self.store, study).await?)
    }
}

fn refuse_study_of_job(study: &StudyId) -> Result<(), StudiesError> {
    if study.is_of_job() { Err(StudiesError::OfJob(study.clone())) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
