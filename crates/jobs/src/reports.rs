//! Accepts the measurements that trainers report over HTTP.

use std::sync::Arc;

use jiff::Timestamp;

use tunesmith_domain::{JobId, Measurement, Trial, TrialChange};
use tunesmith_executor::ExecutorJobId;
use tunesmith_store::{Documents, JobClaims, OptionalExtension, Store};

use super::live_trials::{LiveTrial, LiveTrials, ReportError, TrialKey};
use super::secret::{attempt_token, existing_shared_secret};

/// Accepts reports of running trials. Each is checked against the token of its trial, and stored before it is
/// acknowledged. Of several servers, any accepts the reports of every trial; the one that runs the trial is notified.
#[derive(Clone)]
pub struct TrialReports {
    store: Arc<dyn Store>,
    live: Arc<LiveTrials>,
    shared: Option<Shared>,
}

/// State that several servers share.
#[derive(Clone)]
struct Shared {
    claims: Arc<dyn JobClaims>,
    /// The secrets of jobs among others.
    documents: Arc<dyn Documents>,
}

impl TrialReports {
    /// Creates the service for the trials in `live`.
    pub fn new(store: Arc<dyn Store>, live: Arc<LiveTrials>) -> Self {
        Self { store, live, shared: None }
    }

    /// Accepts the reports of trials of other servers as well.
    #[must_use]
    pub fn with_servers(self, claims: Arc<dyn JobClaims>, documents: Arc<dyn Documents>) -> Self {
        Self { shared: Some(Shared { claims, documents }), ..self }
    }

    /// Stores `measurement` for the trial `key`, if `token` is valid.
    ///
    /// # Errors
    /// [`ReportError`]; nothing was stored, except where [`ReportError::Store`] states that the outcome is unknown.
    pub async fn add(&self, key: &TrialKey, token: &str, measurement: Measurement) -> Result<Trial, ReportError> {
        let live = match self.running(key, token) {
            Ok(live) => live,
            Err(error) => return self.add_on_other_server(key, token, measurement, error).await,
        };
        live.note_tags(&measurement);
        let trial = self.store.change_trial(&key.study, key.trial, report(live.attempt, measurement.clone())).await?;
        live.extend(&[measurement], trial.measurement_count);
        live.reported.notify_one();
        Ok(trial)
    }

    /// Stores the measurement of a trial that another server runs; fails with `error` if none does.
    async fn add_on_other_server(
        &self,
        key: &TrialKey,
        token: &str,
        measurement: Measurement,
        error: ReportError,
    ) -> Result<Trial, ReportError> {
        let trial = self.trial_on_other_server(key, token, error).await?;
        let trial = self.store.change_trial(&key.study, key.trial, report(trial.attempt, measurement)).await?;
        if let Some(shared) = &self.shared {
            shared.claims.announce_measurements(&key.study, key.trial).await;
        }
        Ok(trial)
    }

    /// Checks that `token` is that of the trial `key`, which runs.
    ///
    /// # Errors
    /// As [`TrialReports::add`].
    pub async fn authorize(&self, key: &TrialKey, token: &str) -> Result<(), ReportError> {
        match self.running(key, token) {
            Ok(_) => Ok(()),
            Err(error) => self.trial_on_other_server(key, token, error).await.map(|_| ()),
        }
    }

    /// Returns the trial `key`, if `token` is valid.
    ///
    /// # Errors
    /// As [`TrialReports::add`].
    pub async fn trial(&self, key: &TrialKey, token: &str) -> Result<Trial, ReportError> {
        match self.running(key, token) {
            Ok(_) => Ok(self.store.trial(&key.study, key.trial).await?),
            Err(error) => self.trial_on_other_server(key, token, error).await,
        }
    }

    fn running(&self, key: &TrialKey, token: &str) -> Result<Arc<LiveTrial>, ReportError> {
        let live = self.live.get(key).ok_or_else(|| ReportError::NotRunning(key.clone()))?;
        // A timing attack is not possible: the token is a digest of a secret.
        if live.token != token {
            return Err(ReportError::WrongToken(key.trial));
        }
        Ok(live)
    }

    /// Returns the trial `key` of a job that another server runs, if `token` is that of its current attempt; `error` if
    /// there is no other server.
    async fn trial_on_other_server(
        &self,
        key: &TrialKey,
        token: &str,
        error: ReportError,
    ) -> Result<Trial, ReportError> {
        let Some(shared) = &self.shared else { return Err(error) };
        let not_running = || ReportError::NotRunning(key.clone());
        let (project, _, id) = key.study.parts();
        let job = JobId::new(project, id).map_err(|_| not_running())?;
        let secret = existing_shared_secret(&*shared.documents, &job).await?.ok_or_else(not_running)?;
        let trial = self.store.trial(&key.study, key.trial).await.optional()?;
        let trial = trial.filter(|trial| trial.attempt > 0 && !trial.state.is_final()).ok_or_else(not_running)?;
        let attempt = ExecutorJobId { job, trial: Some(key.trial), attempt: trial.attempt };
        if attempt_token(&secret, &attempt) != token {
            return Err(ReportError::WrongToken(key.trial));
        }
        Ok(trial)
    }
}

fn report(attempt: u64, measurement: Measurement) -> TrialChange {
    TrialChange::Report { attempt, measurements: vec![measurement], at: Timestamp::now(), request_key: None }
}
