//! Studies whose trials are run by their users: suggest, report, complete.
//!
//! A trial is owned by the client that requested it: the same client ID gets the same trial again until the trial is
//! complete. A trial with a lease is taken from a client that sends nothing for longer than the lease, and is given to the
//! next client that requests one; later reports of the former owner are refused.

mod cancellation;
#[cfg(test)]
mod cancellation_tests;
mod completion;
mod figures;
mod keyed_queue;
mod leases;
mod memory;
mod operations;
mod optimal;
mod pending;
mod reports;
mod request_content;
mod stopping;
mod suggestion;
mod summaries;
mod trials;
mod views;

use std::sync::Arc;

use futures::TryStreamExt;
use serde_json::Value;
use tunesmith_algorithms::problem::{TrialId, ValueError};

use self::cancellation::Cancellations;
pub use self::figures::{EndedFigures, MAX_POINTS, StudyFigures};
use self::keyed_queue::KeyedQueues;
use self::leases::Presence;
use self::operations::SuggestionOperations;
pub use self::operations::{SuggestionOperation, SuggestionProgress};
pub use self::pending::PendingSuggestions;
use self::stopping::StoppingRules;
use self::suggestion::AlgorithmFailures;
pub use self::suggestion::{Suggested, SuggestionRequest};
use self::summaries::Summaries;
pub use self::trials::TrialPage;
pub(crate) use self::trials::{created_by, request_of_trial};
use self::views::StudyViews;
pub use self::views::ViewedColumns;
use crate::clock::Clock;
use crate::pages;
use crate::search_policy::{SearchPolicy, SearchPolicyError};
use crate::study_cache::StudyCache;
use crate::study_end::EndedTrials;
use tunesmith_domain::{Measurement, Study, StudyChange, StudyId, Trial};
use tunesmith_store::{Documents, Store, StoreError};
pub use tunesmith_views::{most_at_once, running_at_once};

/// Why a request about a study was not carried out. Nothing was changed, unless the store reports that it does not know.
#[derive(Debug, thiserror::Error)]
pub enum StudiesError {
    /// The record could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No suggestion could be computed.
    #[error(transparent)]
    NoSuggestion(SearchPolicyError),
    /// The suggestion was cancelled.
    #[error("study {study}: the suggestion was cancelled")]
    Cancelled {
        /// The study.
        study: StudyId,
    },
    /// The study belongs to a job, and only the job's runner may change its trials.
    #[error("study {study} belongs to a job: its trials are run by the service")]
    OfJob {
        /// The study.
        study: StudyId,
    },
    /// A computation was interrupted by a panic or by the end of the process.
    #[error("a computation for study {study} was interrupted")]
    Interrupted {
        /// The study.
        study: StudyId,
        /// The cause.
        #[source]
        source: tokio::task::JoinError,
    },
    /// A suggestion could not be stored as pending, or the pending ones could not be read.
    #[error("pending suggestions cannot be stored or read")]
    Pending(#[source] std::io::Error),
    /// A point outside the search space.
    #[error("the parameters are outside the study's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// A result lacks a metric of the study.
    #[error(
        "metric {metric:?} is missing: the measurement has {}; the study's metrics are {}",
        quoted(seen),
        quoted(expected)
    )]
    MissingMetric {
        /// The metric.
        metric: String,
        /// The metrics of the measurement.
        seen: Vec<String>,
        /// The metrics that a result must have.
        expected: Vec<String>,
    },
    /// A trial is to be completed from its measurements, but has none.
    #[error("trial {trial} has no measurement: give finalMeasurement, add a measurement, or set trialInfeasible")]
    NoMeasurement {
        /// The trial.
        trial: TrialId,
    },
    /// A trial is to be completed from its measurements, but none has all metrics of the study.
    #[error(
        "no measurement of trial {trial} has all metrics of the study: the measurements have {}; the study's metrics \
         are {}",
        quoted(seen),
        quoted(expected)
    )]
    NoCompleteMeasurement {
        /// The trial.
        trial: TrialId,
        /// The metrics of its measurements.
        seen: Vec<String>,
        /// The metrics that a result must have.
        expected: Vec<String>,
    },
}

/// Names in quotation marks, separated by commas.
fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

impl From<SearchPolicyError> for StudiesError {
    fn from(error: SearchPolicyError) -> Self {
        match error {
            SearchPolicyError::Store(error) => Self::Store(error),
            SearchPolicyError::Cancelled { study } => Self::Cancelled { study },
            error => Self::NoSuggestion(error),
        }
    }
}

/// A trial of a study, and the attempt whose owner makes the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRef {
    /// The study.
    pub study: StudyId,
    /// The trial.
    pub trial: TrialId,
    /// The attempt of the owner; `None`: the first.
    pub attempt: Option<u64>,
}

impl TrialRef {
    /// The attempt whose owner makes the request, for `trial` as it was read.
    fn attempt_at(&self, trial: &Trial) -> u64 {
        // A trial at attempt 0 was never assigned to a client: its user runs it.
        self.attempt.unwrap_or(trial.attempt.min(1))
    }
}

/// A trial together with its study, as both were read for one request.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialOfStudy {
    /// The study.
    pub study: Study,
    /// The trial.
    pub trial: Trial,
}

/// The result of a trial as its client reports it.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportedOutcome {
    /// This measurement.
    Measured(Measurement),
    /// The last or the best of the trial's measurements, as the study defines it.
    FromCurve,
    /// No result, for this reason.
    Infeasible(String),
}

/// The use cases of studies whose trials are run by their users.
pub struct Studies {
    store: Arc<dyn Store>,
    policy: Arc<SearchPolicy>,
    clock: Arc<dyn Clock>,
    /// Suggestions of one study are computed one after the other; they become durable together.
    study_queues: KeyedQueues<StudyId>,
    /// One client of a study makes one request for trials at a time.
    client_queues: KeyedQueues<(StudyId, String)>,
    failures: AlgorithmFailures,
    stopping: StoppingRules,
    ends: StudyCache<EndedTrials>,
    operations: SuggestionOperations,
    cancellations: Cancellations,
    summaries: Summaries,
    views: StudyViews,
    pending: PendingSuggestions,
    presence: Presence,
}

impl Studies {
    /// The studies of `store`.
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
        }
    }

    /// Shares the studies with other servers, which have `documents` in common. Suggestions that continue in the background
    /// are stored there.
    #[must_use]
    pub fn with_servers(self, documents: Arc<dyn Documents>) -> Self {
        let pending = PendingSuggestions::shared(Arc::clone(&documents));
        Self { pending, presence: Presence::of_servers(documents), ..self }
    }

    /// Stores suggestions that continue in the background in `pending`, for [`Self::resume_suggestions`] of the next
    /// process. Without it they end with the process.
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

    /// The studies whose trials inform a study after `studies`: each after its own source studies, each once.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the first study that does not exist.
    pub async fn source_studies(&self, studies: &[StudyId]) -> Result<Vec<StudyId>, StudiesError> {
        let mut sources: Vec<StudyId> = Vec::new();
        for id in studies {
            let study = self.store.study(id).await?;
            let new: Vec<StudyId> = study.with_sources().filter(|source| !sources.contains(source)).cloned().collect();
            sources.extend(new);
        }
        Ok(sources)
    }

    /// The study `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn study(&self, id: &StudyId) -> Result<Study, StudiesError> {
        Ok(self.store.study(id).await?)
    }

    /// The studies of `project` at `location` that `wanted` accepts, by ID.
    ///
    /// # Errors
    /// [`StudiesError::Store`].
    pub async fn studies(
        &self,
        project: &str,
        location: &str,
        wanted: impl Fn(&Study) -> bool + Send,
    ) -> Result<Vec<Study>, StudiesError> {
        let mut studies = std::pin::pin!(pages::studies(&*self.store, project, location));
        let mut found = Vec::new();
        while let Some(study) = studies.try_next().await? {
            if wanted(&study) {
                found.push(study);
            }
        }
        Ok(found)
    }

    /// Returns what `pick` returns for the studies of all projects and locations that belong to no job, by ID.
    ///
    /// # Errors
    /// [`StudiesError::Store`].
    pub async fn pick<T>(&self, mut pick: impl FnMut(Study) -> Option<T> + Send) -> Result<Vec<T>, StudiesError> {
        let mut studies = std::pin::pin!(pages::all_studies(&*self.store));
        let mut picked = Vec::new();
        while let Some(study) = studies.try_next().await? {
            picked.extend(pick(study));
        }
        Ok(picked)
    }

    /// Raises the maximum number of trials of a study, which then accepts trials again. `config` is the study's
    /// configuration with that number, in the form that the study was created by.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`]; [`StoreError::Refused`] if the number is not raised, or the
    /// study has none.
    pub async fn extend_study(&self, id: &StudyId, max_trials: u64, config: Value) -> Result<Study, StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        let change = StudyChange::Extend { max_trials, config: Arc::new(config) };
        Ok(self.store.change_study(id, change).await?)
    }

    /// Removes a study with all its trials. Suggestions that are computed for it end.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`].
    pub async fn delete_study(&self, id: &StudyId) -> Result<(), StudiesError> {
        refuse_study_of_job(id)?;
        self.cancellations.cancel_all(id);
        let _entered = self.study_queues.enter(id).await;
        self.store.delete_study(id).await?;
        self.policy.forget(id);
        self.failures.forget(id);
        self.stopping.forget(id);
        self.ends.forget(id);
        self.summaries.forget(id);
        self.views.forget(id);
        Ok(())
    }

    /// The numbers of the optimal trials: of the best trial of a study with one metric, the first of equals; with several
    /// metrics, of the trials that no other trial dominates, best first as in [`tunesmith_domain::best_first`]. A call reads what
    /// has changed since the last one, or since the stored summary of the study.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn optimal_trials(&self, study: &Study) -> Result<Vec<TrialId>, StudiesError> {
        Ok(self.summaries.optimal(&self.store, study).await?)
    }
}

fn refuse_study_of_job(study: &StudyId) -> Result<(), StudiesError> {
    if study.is_of_job() { Err(StudiesError::OfJob { study: study.clone() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
