//! Accepts the measurements that trainers report over HTTP.

use std::sync::Arc;

use jiff::Timestamp;

use tunesmith_domain::{Measurement, Trial, TrialChange};
use tunesmith_store::Store;

use super::live_trials::{LiveTrial, LiveTrials, ReportError, TrialKey};

/// Accepts reports of running trials. Each is checked against the token of its trial, and stored before it is
/// acknowledged.
#[derive(Clone)]
pub struct TrialReports {
    store: Arc<dyn Store>,
    live: Arc<LiveTrials>,
}

impl TrialReports {
    /// Creates the service for the trials in `live`.
    pub fn new(store: Arc<dyn Store>, live: Arc<LiveTrials>) -> Self {
        Self { store, live }
    }

    /// Stores `measurement` for the trial `key`, if `token` is valid. Sets the mark of the measurement.
    ///
    /// # Errors
    /// [`ReportError`]; nothing was stored, except where [`ReportError::Store`] states that the outcome is unknown.
    pub async fn add(&self, key: &TrialKey, token: &str, mut measurement: Measurement) -> Result<Trial, ReportError> {
        let live = self.running(key, token)?;
        measurement.mark = live.points() as u64;
        live.note_tags(&measurement);
        let change = TrialChange::Report {
            attempt: live.attempt,
            measurements: vec![measurement.clone()],
            at: Timestamp::now(),
            request_key: None,
        };
        let trial = self.store.change_trial(&key.study, key.trial, change).await?;
        live.extend(&[measurement]);
        live.reported.notify_one();
        Ok(trial)
    }

    /// Returns the trial `key`, if `token` is valid.
    ///
    /// # Errors
    /// As [`TrialReports::add`].
    pub async fn trial(&self, key: &TrialKey, token: &str) -> Result<Trial, ReportError> {
        self.running(key, token)?;
        Ok(self.store.trial(&key.study, key.trial).await?)
    }

    fn running(&self, key: &TrialKey, token: &str) -> Result<Arc<LiveTrial>, ReportError> {
        let live =
            self.live.get(key).ok_or_else(|| ReportError::NotRunning { study: key.study.clone(), trial: key.trial })?;
        // A timing attack is not possible: the token is a digest of a secret.
        if live.token != token {
            return Err(ReportError::WrongToken { trial: key.trial });
        }
        Ok(live)
    }
}
