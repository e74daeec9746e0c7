//! Accepts the measurements that trainers report over HTTP.

use std::sync::Arc;

use tunesmith_domain::{JobId, Measurement, Trial};
use tunesmith_executor::ExecutorJobId;
use tunesmith_store::OptionalExtension;
use tunesmith_studies::measurements::{self, Deduplication, Report};

use super::live_trials::{ReportError, TrialKey};
use super::runner::JobServices;
use super::secret::{attempt_token, existing_shared_secret};

/// Accepts reports of running trials. Each is checked against the token of its trial, and stored before it is
/// acknowledged. Of several servers, any accepts the reports of every trial; the one that runs the trial is notified.
#[derive(Clone)]
pub struct TrialReports(Arc<JobServices>);

impl TrialReports {
    /// Creates the service for the trials in [`JobServices::live`], and those of other servers if there are any.
    pub fn new(services: Arc<JobServices>) -> Self {
        Self(services)
    }

    /// Stores `measurement` for the trial `key`, if `token` is valid.
    ///
    /// # Errors
    /// [`ReportError`]; nothing was stored, except where [`ReportError::Store`] states that the outcome is unknown.
    pub async fn add(&self, key: &TrialKey, token: &str, measurement: Measurement) -> Result<Trial, ReportError> {
        let JobServices { store, live, clock, claims, .. } = &*self.0;
        let (attempt, elsewhere) = self.running(key, token).await?;
        let (at, deduplication) = (clock.now(), Deduplication::None);
        let report = Report { attempt, at, measurements: &[measurement], deduplication };
        let extend = |new: &[Measurement], count| live.extend(key, attempt, new, count);
        let trial = measurements::report(&**store, &key.study, key.trial, report, extend).await?;
        if elsewhere.is_some() {
            claims.announce_measurements(&key.study, key.trial).await;
        }
        Ok(trial)
    }

    /// Checks that `token` is that of the trial `key`, which runs.
    ///
    /// # Errors
    /// As [`TrialReports::add`].
    pub async fn authorize(&self, key: &TrialKey, token: &str) -> Result<(), ReportError> {
        self.running(key, token).await.map(drop)
    }

    /// Returns the trial `key`, if `token` is valid.
    ///
    /// # Errors
    /// As [`TrialReports::add`].
    pub async fn trial(&self, key: &TrialKey, token: &str) -> Result<Trial, ReportError> {
        let (_, elsewhere) = self.running(key, token).await?;
        Ok(if let Some(trial) = elsewhere { trial } else { self.0.store.trial(&key.study, key.trial).await? })
    }

    /// Returns the attempt of the running trial `key`, if `token` is valid, and the trial if another server runs it.
    async fn running(&self, key: &TrialKey, token: &str) -> Result<(u64, Option<Trial>), ReportError> {
        let not_running = || ReportError::NotRunning(key.clone());
        let live = self.0.live.get(key);
        // A timing attack is not possible: the token is a digest of a secret.
        if let Some(live) = live.as_ref().filter(|live| live.token == token) {
            return Ok((live.attempt, None));
        }
        let Some(documents) = &self.0.documents else {
            return Err(live.map_or_else(not_running, |_| ReportError::WrongToken(key.trial)));
        };
        let (project, _, id) = key.study.parts();
        let job = JobId::new(project, id).map_err(|_| not_running())?;
        let secret = existing_shared_secret(&**documents, &job).await?.ok_or_else(not_running)?;
        let trial = self.0.store.trial(&key.study, key.trial).await.optional()?;
        let trial = trial.filter(|trial| trial.attempt > 0 && !trial.state.is_final()).ok_or_else(not_running)?;
        let attempt = ExecutorJobId { job, trial: Some(key.trial), attempt: trial.attempt };
        if attempt_token(&secret, &attempt) != token {
            return Err(ReportError::WrongToken(key.trial));
        }
        Ok((trial.attempt, Some(trial)))
    }
}
