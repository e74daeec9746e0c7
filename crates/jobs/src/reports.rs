//! Accepts the measurements that trainers report over HTTP.

use std::sync::Arc;

use jiff::Timestamp;

use tunesmith_domain::{JobId, Measurement, Trial};
use tunesmith_executor::ExecutorJobId;
use tunesmith_store::{Documents, JobClaims, OptionalExtension, Store};
use tunesmith_studies::measurements::{self, Deduplication, Report};

use super::live_trials::{LiveTrials, ReportError, TrialKey};
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
        let (attempt, elsewhere) = self.running(key, token).await?;
        let (at, deduplication) = (Timestamp::now(), Deduplication::None);
        let report = Report { attempt, at, measurements: &[measurement], deduplication };
        let extend = |new: &[Measurement], count| self.live.extend(key, attempt, new, count);
        let trial = measurements::report(&*self.store, &key.study, key.trial, report, extend).await?;
        if let Some(shared) = self.shared.as_ref().filter(|_| elsewhere.is_some()) {
            shared.claims.announce_measurements(&key.study, key.trial).await;
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
        Ok(if let Some(trial) = elsewhere { trial } else { self.store.trial(&key.study, key.trial).await? })
    }

    /// Returns the attempt of the running trial `key`, if `token` is valid, and the trial if another server runs it.
    async fn running(&self, key: &TrialKey, token: &str) -> Result<(u64, Option<Trial>), ReportError> {
        let not_running = || ReportError::NotRunning(key.clone());
        let live = self.live.get(key);
        // A timing attack is not possible: the token is a digest of a secret.
        if let Some(live) = live.as_ref().filter(|live| live.token == token) {
            return Ok((live.attempt, None));
        }
        let Some(shared) = &self.shared else {
            return Err(live.map_or_else(not_running, |_| ReportError::WrongToken(key.trial)));
        };
        let (project, _, id) = key.study.parts();
        let job = JobId::new(project, id).map_err(|_| not_running())?;
        let secret = existing_shared_secret(&*shared.documents, &job).await?.ok_or_else(not_running)?;
        let trial = self.store.trial(&key.study, key.trial).await.optional()?;
        let trial = trial.filter(|trial| trial.attempt > 0 && !trial.state.is_final()).ok_or_else(not_running)?;
        let attempt = ExecutorJobId { job, trial: Some(key.trial), attempt: trial.attempt };
        if attempt_token(&secret, &attempt) != token {
            return Err(ReportError::WrongToken(key.trial));
        }
        Ok((trial.attempt, Some(trial)))
    }
}
