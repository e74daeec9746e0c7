//! Live export of jobs to experiment trackers, as the runner uses it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use tunesmith_domain::{Job, JobId, TrialId};
use tunesmith_store::StoreError;

/// Exports jobs while they run. Thread-safe.
///
/// The runner waits for no tracker, except for the bounded time that [`Self::variables`] states.
#[async_trait]
pub trait JobTracking: Send + Sync + 'static {
    /// Exports `job`, which this server begins to run, if it has a destination. Returns immediately.
    fn start(&self, job: &Job);

    /// Variables for the program of `trial`, or of a job without hyperparameters. Waits a second at most, and not at all
    /// while the tracker does not respond.
    async fn variables(&self, job: &JobId, trial: Option<TrialId>) -> BTreeMap<String, String>;

    /// Progress of the export of `job`; `None` if it is not exported.
    async fn status(&self, job: &Job) -> Result<Option<TrackingStatus>, StoreError>;

    /// Forgets a deleted job.
    async fn forget(&self, job: &JobId) -> Result<(), StoreError>;
}

/// Progress of the export of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackingStatus {
    /// Address of the tracker, without credentials; empty if none is configured.
    pub uri: String,
    pub experiment: String,
    /// ID of the job's run, once created.
    pub run: Option<String>,
    /// Whether the job has ended, and the tracker has everything.
    pub is_complete: bool,
    /// Time at which the tracker last had everything.
    pub last_success: Option<Timestamp>,
    /// Time since which the export fails, and the last error.
    pub failing: Option<(Timestamp, String)>,
}

/// Exports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTracking;

#[async_trait]
impl JobTracking for NoTracking {
    fn start(&self, _job: &Job) {}

    async fn variables(&self, _job: &JobId, _trial: Option<TrialId>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    async fn status(&self, _job: &Job) -> Result<Option<TrackingStatus>, StoreError> {
        Ok(None)
    }

    async fn forget(&self, _job: &JobId) -> Result<(), StoreError> {
        Ok(())
    }
}
