//! Studies whose trials are run by their users: suggest, report, complete.
//!
//! A trial is owned by the client that requested it: the same client ID gets the same trial again until the trial is
//! complete. A trial with a lease is taken from a client that sends nothing for longer than the lease, and is given to the
//! next client that requests one; later reports of the former owner are refused.

mod completion;
mod keyed_queue;
mod operations;
mod reports;
mod stopping;
mod suggestion;
mod trials;

use std::sync::Arc;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tunesmith_algorithms::problem::{TrialId, ValueError, pareto};

use self::keyed_queue::KeyedQueues;
use self::operations::SuggestionOperations;
pub use self::operations::{SuggestionOperation, SuggestionProgress};
use self::stopping::StoppingRules;
use self::suggestion::AlgorithmFailures;
pub use self::suggestion::{Suggested, SuggestionRequest};
use crate::clock::Clock;
use crate::pages;
use crate::search_policy::{SearchPolicy, SearchPolicyError};
use tunesmith_domain::{Measurement, Study, StudyChange, StudyId, Trial, TrialChange, TrialState};
use tunesmith_store::{Store, StoreError};
use tunesmith_telemetry::telemetry;

/// Maximum number of overdue trials read at once.
const PAGE: usize = 1000;

/// Why a request about a study was not carried out. Nothing was changed, unless the store reports that it does not know.
#[derive(Debug, thiserror::Error)]
pub enum StudiesError {
    /// The record could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No suggestion could be computed.
    #[error(transparent)]
    NoSuggestion(SearchPolicyError),
    /// The study belongs to a job, and only the job's runner may change its trials.
    #[error("study {study} belongs to a job: its trials are run by the service")]
    OfJob {
        /// The study.
        study: StudyId,
    },
    /// A point outside the search space.
    #[error("the parameters are outside the study's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// A result lacks a metric of the study.
    #[error("metric {metric:?} is missing; the study's metrics are {}", expected.join(", "))]
    MissingMetric {
        /// The metric.
        metric: String,
        /// The metrics that a result must have.
        expected: Vec<String>,
    },
}

impl From<SearchPolicyError> for StudiesError {
    fn from(error: SearchPolicyError) -> Self {
        match error {
            SearchPolicyError::Store(error) => Self::Store(error),
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
    operations: SuggestionOperations,
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
            operations: SuggestionOperations::default(),
        }
    }

    /// Adds a study and returns it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    pub async fn create_study(&self, study: Study) -> Result<Study, StudiesError> {
        self.store.create_study(study.clone()).await?;
        Ok(study)
    }

    /// The study `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn study(&self, id: &StudyId) -> Result<Study, StudiesError> {
        Ok(self.store.study(id).await?)
    }

    /// All studies of `project` at `location`, by ID.
    ///
    /// # Errors
    /// [`StudiesError::Store`].
    pub async fn studies(&self, project: &str, location: &str) -> Result<Vec<Study>, StudiesError> {
        Ok(pages::studies(&*self.store, project, location).try_collect().await?)
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

    /// Removes a study with all its trials.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StudiesError::OfJob`].
    pub async fn delete_study(&self, id: &StudyId) -> Result<(), StudiesError> {
        refuse_study_of_job(id)?;
        let _entered = self.study_queues.enter(id).await;
        self.store.delete_study(id).await?;
        self.policy.forget(id);
        self.failures.forget(id);
        self.stopping.forget(id);
        Ok(())
    }

    /// The best trial of a study with one metric; with several metrics, the trials that no other trial dominates.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn optimal_trials(&self, study: &Study) -> Result<Vec<Trial>, StudiesError> {
        let trials = self.trials(&study.id).await?;
        Ok(optimal(study, trials))
    }

    /// Takes trials back whose leases have ended, and returns their number. To be called regularly.
    ///
    /// # Errors
    /// [`StudiesError::Store`]; the trials before the failure were taken back.
    pub async fn sweep(&self) -> Result<u64, StudiesError> {
        let mut swept = 0;
        loop {
            let now = self.clock.now();
            let overdue = self.store.overdue_trials(now, PAGE).await?;
            if overdue.is_empty() {
                return Ok(swept);
            }
            for (study, trial) in overdue {
                self.take_back(&study, &trial, now).await?;
                swept += 1;
            }
        }
    }

    async fn take_back(&self, id: &StudyId, trial: &Trial, now: Timestamp) -> Result<(), StudiesError> {
        tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a lease expired");
        if trial.state != TrialState::Stopping {
            telemetry().leases_expired.inc();
            let expire = TrialChange::Expire { attempt: trial.attempt, at: now };
            self.store.change_trial(id, trial.id, expire).await?;
            return Ok(());
        }
        // Its owner was requested to stop and is silent: its measurements are its result.
        let study = self.store.study(id).await?;
        let key = TrialRef { study: id.clone(), trial: trial.id, attempt: Some(trial.attempt) };
        match self.complete_as_owner(&study, &key, trial.clone(), ReportedOutcome::FromCurve).await {
            // Its owner completed it meanwhile.
            Ok(_) | Err(StudiesError::Store(StoreError::Refused(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn refuse_study_of_job(study: &StudyId) -> Result<(), StudiesError> {
    if study.is_of_job() { Err(StudiesError::OfJob { study: study.clone() }) } else { Ok(()) }
}

/// The trials that no other trial of `trials` dominates.
fn optimal(study: &Study, trials: Vec<Trial>) -> Vec<Trial> {
    let metrics = study.problem.metrics();
    let measured = trials.into_iter().filter_map(|trial| {
        let measurement = trial.final_measurement.as_ref()?;
        let values = metrics.iter().map(|metric| Some(metric.goal.to_maximized(measurement.value(&metric.name)?)));
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        Some((values, trial))
    });
    let (values, measured): (Vec<Vec<f64>>, Vec<Trial>) = measured.unzip();
    // With several metrics all copies of a point are optimal; with one, the first trial of the best value.
    let optimal = if metrics.len() == 1 { pareto::distinct_front(&values) } else { pareto::front(&values) };
    optimal.into_iter().map(|index| measured[index].clone()).collect()
}

#[cfg(test)]
mod tests;
