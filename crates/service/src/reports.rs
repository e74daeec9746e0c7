//! Takes a measurement that a trainer sends over HTTP.

use std::sync::Arc;

use jiff::Timestamp;

use tunesmith_domain::{Measurement, Trial, TrialChange};
use tunesmith_store::Store;

use super::live_trials::{LiveTrial, LiveTrials, ReportError, TrialKey};

/// Reports of running trials, checked against the trial's own token and stored before they are acknowledged.
#[derive(Clone)]
pub struct TrialReports {
    store: Arc<dyn Store>,
    live: Arc<LiveTrials>,
}

impl TrialReports {
    /// Reports of the trials in `live`.
    pub fn new(store: Arc<dyn Store>, live: Arc<LiveTrials>) -> Self {
        Self { store, live }
    }

    /// Stores `measurement` for the trial `key`, whose program showed `token`. Its mark is set here.
    ///
    /// # Errors
    /// [`ReportError`]; nothing was stored, unless the store itself says that it does not know.
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

    /// The trial `key`, for a program that shows its token.
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
        // The token is a digest: comparing it byte by byte tells an attacker nothing that helps to guess the rest.
        if live.token != token {
            return Err(ReportError::WrongToken { trial: key.trial });
        }
        Ok(live)
    }
}
