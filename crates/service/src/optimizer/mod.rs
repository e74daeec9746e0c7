//! Studies whose trials are run by their users: suggest, report, complete.
//!
//! Whoever asks for a trial gets it for himself: asking again under the same client ID gives the same trial again until
//! it is complete. With a lease, a client that is silent for too long loses its trial, which is offered to the next one
//! that asks; what the former client then reports is refused.

mod completion;
mod stopping;
mod suggestion;
mod turns;

use std::sync::Arc;

use futures::TryStreamExt;
use futures::future::ready;
use jiff::Timestamp;
use tunesmith_algorithms::problem::{Goal, ParameterValues, TrialId, ValueError};

use self::stopping::StoppingRules;
use self::suggestion::AlgorithmFailures;
pub use self::suggestion::{Suggested, SuggestionRequest};
use self::turns::Turns;
use crate::clock::Clock;
use crate::pages;
use crate::policy::{Policy, PolicyError};
use tunesmith_domain::{
    Measurement, NewTrial, Study, StudyId, TransitionError, Trial, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::{Store, StoreError};
use tunesmith_telemetry::telemetry;

/// Maximum number of overdue trials read at once.
const PAGE: usize = 1000;

/// How many of a study's latest trials are searched for one that a request has created before.
const KEYED_TRIALS: usize = 1000;

/// Why a request about a study was not carried out. Nothing was changed, unless the store says that it does not know.
#[derive(Debug, thiserror::Error)]
pub enum OptimizerError {
    /// The record could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No suggestion could be computed.
    #[error(transparent)]
    NoSuggestion(PolicyError),
    /// The study belongs to a job, which alone runs its trials.
    #[error("study {study} belongs to a job: its trials are run by the service")]
    OfJob {
        /// The study.
        study: StudyId,
    },
    /// A point outside of the search space.
    #[error("the parameters are no point of the study's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// A result lacks a metric of the study.
    #[error("metric {metric:?} is missing; the study's metrics are {}", expected.join(", "))]
    MissingMetric {
        /// The metric.
        metric: String,
        /// All that a result must have.
        expected: Vec<String>,
    },
}

impl From<PolicyError> for OptimizerError {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Store(error) => Self::Store(error),
            error => Self::NoSuggestion(error),
        }
    }
}

/// A trial of a study, and which owner of it speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRef {
    /// The study.
    pub study: StudyId,
    /// The trial.
    pub trial: TrialId,
    /// The attempt of the owner; `None`: the first.
    pub attempt: Option<u64>,
}

/// What a client says that came of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// This.
    Measured(Measurement),
    /// The best or last of what it reported, as the study says.
    Reported,
    /// Nothing, for this reason.
    Infeasible(String),
}

/// The use cases of studies whose trials are run by their users.
pub struct Optimizer {
    store: Arc<dyn Store>,
    policy: Arc<Policy>,
    clock: Arc<dyn Clock>,
    /// Suggestions for one study are made one after the other; they become durable together.
    turns: Turns<StudyId>,
    /// One client of a study asks for one thing at a time.
    clients: Turns<(StudyId, String)>,
    failures: AlgorithmFailures,
    stopping: StoppingRules,
}

impl Optimizer {
    /// The studies of `store`.
    pub fn new(store: Arc<dyn Store>, policy: Arc<Policy>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            policy,
            clock,
            turns: Turns::default(),
            clients: Turns::default(),
            failures: AlgorithmFailures::default(),
            stopping: StoppingRules::default(),
        }
    }

    /// Adds a study and returns it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    pub async fn create_study(&self, study: Study) -> Result<Study, OptimizerError> {
        self.store.create_study(study.clone()).await?;
        Ok(study)
    }

    /// The study `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn study(&self, id: &StudyId) -> Result<Study, OptimizerError> {
        Ok(self.store.study(id).await?)
    }

    /// All studies of `project` at `location`, by ID.
    ///
    /// # Errors
    /// [`OptimizerError::Store`].
    pub async fn studies(&self, project: &str, location: &str) -> Result<Vec<Study>, OptimizerError> {
        Ok(pages::studies(&*self.store, project, location).try_collect().await?)
    }

    /// Removes a study with all its trials.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`].
    pub async fn delete_study(&self, id: &StudyId) -> Result<(), OptimizerError> {
        refuse_study_of_job(id)?;
        let _turn = self.turns.take(id).await;
        self.store.delete_study(id).await?;
        self.policy.forget(id);
        self.failures.forget(id);
        self.stopping.forget(id);
        Ok(())
    }

    /// The trial `id` of `study`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn trial(&self, study: &StudyId, id: TrialId) -> Result<Trial, OptimizerError> {
        let trial = self.store.trial(study, id).await?;
        if trial.state == TrialState::Deleted {
            return Err(StoreError::NotFound { resource: format!("trial {id} of study {study}") }.into());
        }
        Ok(trial)
    }

    /// All trials of `study` in the order of their numbers.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn trials(&self, study: &StudyId) -> Result<Vec<Trial>, OptimizerError> {
        let trials = pages::trials(&*self.store, study);
        Ok(trials.try_filter(|trial| ready(trial.state != TrialState::Deleted)).try_collect().await?)
    }

    /// The measurements that a trial has, as it was read, in the order of its curve.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn measurements(&self, study: &StudyId, trial: &Trial) -> Result<Vec<Measurement>, OptimizerError> {
        let mut curve = pages::measurements(&*self.store, study, trial).await?;
        curve.sort_by(|a, b| {
            let elapsed = |measurement: &Measurement| measurement.elapsed_secs.unwrap_or(0.0);
            a.step.cmp(&b.step).then(elapsed(a).total_cmp(&elapsed(b)))
        });
        Ok(curve)
    }

    /// Adds a point of the user's own, which is offered to the next client that asks; with `result`, a trial that is
    /// complete. If one of the study's latest trials was created by a request of the same `request_key`, that trial is
    /// the answer.
    ///
    /// # Errors
    /// [`OptimizerError::ForeignPoint`], [`OptimizerError::MissingMetric`], [`OptimizerError::OfJob`],
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the study is not active.
    pub async fn create_trial(
        &self,
        id: &StudyId,
        parameters: ParameterValues,
        result: Option<Outcome>,
        request_key: Option<String>,
    ) -> Result<Trial, OptimizerError> {
        refuse_study_of_job(id)?;
        let _turn = self.turns.take(id).await;
        loop {
            let study = self.store.study(id).await?;
            if let Some(key) = &request_key
                && let Some(trial) = self.created_by(&study, key).await?
            {
                // Not found, if it was deleted since.
                return self.trial(id, trial.id).await;
            }
            study.problem.search_space().check(&parameters).map_err(OptimizerError::ForeignPoint)?;
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
                // A suggestion was on its way to the store, which has arrived now.
                Err(StoreError::TrialIdTaken { .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Of the study's latest trials, the one that was created by a request with this key.
    async fn created_by(&self, study: &Study, key: &str) -> Result<Option<Trial>, OptimizerError> {
        let before = TrialId(study.next_trial_id.0.saturating_sub(1).saturating_sub(KEYED_TRIALS as u64));
        let latest = self.store.trials(&study.id, Some(before), KEYED_TRIALS).await?;
        Ok(latest.into_iter().rev().find(|trial| trial.request_keys.first().is_some_and(|first| first == key)))
    }

    /// Takes a trial away; what it taught is forgotten, its number stays used up.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`].
    pub async fn delete_trial(&self, study: &StudyId, id: TrialId) -> Result<(), OptimizerError> {
        refuse_study_of_job(study)?;
        self.trial(study, id).await?;
        self.store.change_trial(study, id, TrialChange::Delete { at: self.clock.now() }).await?;
        self.stopping.forget(study);
        Ok(())
    }

    /// Adds `measurement` to a trial's curve, as a sign of life. A request that is sent again, which its `request_key`
    /// tells, adds nothing; nor does the latest measurement again, if it has a step or a time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`]; [`StoreError::Refused`] if the trial is complete or no
    /// longer belongs to the caller.
    pub async fn add_measurement(
        &self,
        key: &TrialRef,
        measurement: Measurement,
        request_key: Option<String>,
    ) -> Result<Trial, OptimizerError> {
        refuse_study_of_job(&key.study)?;
        let trial = self.trial(&key.study, key.trial).await?;
        let at = self.clock.now();
        if !trial.state.is_final() && self.is_latest(key, &trial, &measurement).await? {
            return self.change_as_owner(key, trial, |attempt| TrialChange::Renew { attempt, at }).await;
        }
        let measurements = vec![Measurement { mark: trial.measurement_count, ..measurement }];
        let report = |attempt| TrialChange::Report {
            attempt,
            measurements: measurements.clone(),
            at,
            request_key: request_key.clone(),
        };
        self.change_as_owner(key, trial, report).await
    }

    /// Makes a change of the owner of `trial`, as it was read.
    async fn change_as_owner(
        &self,
        key: &TrialRef,
        trial: Trial,
        change: impl Fn(u64) -> TrialChange,
    ) -> Result<Trial, OptimizerError> {
        let attempt = key.attempt_at(&trial);
        match self.store.change_trial(&key.study, key.trial, change(attempt)).await {
            // It was queued when it was read, and has got its first owner since.
            Err(StoreError::Refused(TransitionError::Fenced { current: 1, reported: 0, .. })) => {
                Ok(self.store.change_trial(&key.study, key.trial, change(1)).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Whether `measurement` tells nothing that the latest one has not told.
    async fn is_latest(&self, key: &TrialRef, trial: &Trial, measurement: &Measurement) -> Result<bool, StoreError> {
        let has_place = measurement.step > 0 || measurement.elapsed_secs.is_some();
        let Some(last) = trial.measurement_count.checked_sub(1).filter(|_| has_place) else { return Ok(false) };
        let latest = self.store.measurements(&key.study, key.trial, last, 1).await?;
        Ok(latest.first().is_some_and(|latest| {
            (latest.step, latest.elapsed_secs) == (measurement.step, measurement.elapsed_secs)
                && latest.metrics == measurement.metrics
        }))
    }

    /// Completes a trial. Doing so twice with the same outcome is one effect.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`], [`OptimizerError::MissingMetric`];
    /// [`StoreError::Refused`] if the trial is complete with another result or no longer belongs to the caller.
    pub async fn complete(&self, key: &TrialRef, outcome: Outcome) -> Result<Trial, OptimizerError> {
        refuse_study_of_job(&key.study)?;
        let study = self.store.study(&key.study).await?;
        let trial = self.trial(&key.study, key.trial).await?;
        let trial = self.complete_as(&study, key, trial, outcome).await?;
        self.policy.prepare(study.id.clone());
        Ok(trial)
    }

    async fn complete_as(
        &self,
        study: &Study,
        key: &TrialRef,
        trial: Trial,
        outcome: Outcome,
    ) -> Result<Trial, OptimizerError> {
        let curve = match outcome {
            Outcome::Reported => self.measurements(&study.id, &trial).await?,
            Outcome::Measured(_) | Outcome::Infeasible(_) => Vec::new(),
        };
        let (completion, at) = (completion::completion(study, &curve, outcome)?, self.clock.now());
        let complete =
            |attempt| TrialChange::Complete { attempt, measurements: Vec::new(), completion: completion.clone(), at };
        self.change_as_owner(key, trial, complete).await
    }

    /// Asks a trial's owner to stop; whatever it reported last will be the result.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`]; [`StoreError::Refused`] if nobody has the trial.
    pub async fn stop(&self, key: &TrialRef) -> Result<Trial, OptimizerError> {
        refuse_study_of_job(&key.study)?;
        self.trial(&key.study, key.trial).await?;
        Ok(self.store.change_trial(&key.study, key.trial, TrialChange::Stop).await?)
    }

    /// Whether a trial should stop, by the study's rule. If so, it is stopping from then on. A sign of life.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`OptimizerError::OfJob`]; [`StoreError::Refused`] if the trial no longer belongs to
    /// the caller.
    pub async fn should_stop(&self, key: &TrialRef) -> Result<bool, OptimizerError> {
        refuse_study_of_job(&key.study)?;
        let study = self.store.study(&key.study).await?;
        let mut trial = self.trial(&key.study, key.trial).await?;
        // Nobody was ever assigned to a trial at attempt 0: there is nothing to renew.
        if !trial.state.is_final() && trial.attempt > 0 {
            let at = self.clock.now();
            trial = self.change_as_owner(key, trial, |attempt| TrialChange::Renew { attempt, at }).await?;
        }
        if trial.state == TrialState::Active {
            let curve = self.measurements(&study.id, &trial).await?;
            if let Some(reason) = self.stopping.decide(&*self.store, &study, trial.id, &curve).await? {
                tracing::info!(study.name = %study.id, trial.id = %trial.id, reason, "a trial shall stop early");
                trial = self.store.change_trial(&key.study, key.trial, TrialChange::Stop).await?;
            }
        }
        Ok(trial.state == TrialState::Stopping)
    }

    /// The best trial of a study with one metric; with several, those that none is better than in all of them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn optimal_trials(&self, id: &StudyId) -> Result<Vec<Trial>, OptimizerError> {
        let study = self.store.study(id).await?;
        let trials = self.trials(id).await?;
        Ok(optimal(&study, trials))
    }

    /// Takes trials back whose leases have ended, and returns how many. To be called regularly.
    ///
    /// # Errors
    /// [`OptimizerError::Store`]; those before it were taken back.
    pub async fn sweep(&self) -> Result<u64, OptimizerError> {
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

    async fn take_back(&self, id: &StudyId, trial: &Trial, now: Timestamp) -> Result<(), OptimizerError> {
        tracing::info!(study.name = %id, trial.id = %trial.id, client = trial.client_id, "a lease has ended");
        if trial.state != TrialState::Stopping {
            telemetry().leases_expired.inc();
            let expire = TrialChange::Expire { attempt: trial.attempt, at: now };
            self.store.change_trial(id, trial.id, expire).await?;
            return Ok(());
        }
        // It was asked to end and is silent: what it reported is its result.
        let study = self.store.study(id).await?;
        let key = TrialRef { study: id.clone(), trial: trial.id, attempt: Some(trial.attempt) };
        match self.complete_as(&study, &key, trial.clone(), Outcome::Reported).await {
            // Its owner was faster.
            Ok(_) | Err(OptimizerError::Store(StoreError::Refused(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl TrialRef {
    /// The attempt whose owner speaks, at `trial` as it was read.
    fn attempt_at(&self, trial: &Trial) -> u64 {
        // Nobody was ever assigned to a trial at attempt 0: its user runs it.
        self.attempt.unwrap_or(trial.attempt.min(1))
    }
}

fn refuse_study_of_job(study: &StudyId) -> Result<(), OptimizerError> {
    if study.is_of_job() { Err(OptimizerError::OfJob { study: study.clone() }) } else { Ok(()) }
}

/// Of `trials`, those that none is better than.
fn optimal(study: &Study, trials: Vec<Trial>) -> Vec<Trial> {
    let metrics = study.problem.metrics();
    let measured = trials.into_iter().filter_map(|trial| {
        let measurement = trial.final_measurement.as_ref()?;
        // As losses: less is better.
        let losses = metrics.iter().map(|metric| {
            let value = measurement.value(&metric.name)?;
            Some(if metric.goal == Goal::Maximize { -value } else { value })
        });
        let losses: Vec<f64> = losses.collect::<Option<_>>()?;
        Some((losses, trial))
    });
    let measured: Vec<(Vec<f64>, Trial)> = measured.collect();
    if metrics.len() == 1 {
        // The first of equals.
        let best = measured.into_iter().reduce(|best, next| if next.0[0] < best.0[0] { next } else { best });
        return best.map(|(_, trial)| trial).into_iter().collect();
    }
    let dominates = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b) && a != b;
    let is_optimal = |losses: &[f64]| !measured.iter().any(|(other, _)| dominates(other, losses));
    measured.iter().filter(|(losses, _)| is_optimal(losses)).map(|(_, trial)| trial.clone()).collect()
}

#[cfg(test)]
mod tests;
