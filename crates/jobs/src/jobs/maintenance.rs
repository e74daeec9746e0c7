//! Periodic maintenance: removal of ended attempts from the executor, package expiry, and store faults.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;

use super::{Jobs, JobsError};
use tunesmith_domain::{Job, JobId};
use tunesmith_store::{StoreError, pages};

/// Interval between sweeps. A guess: leftovers occupy cluster capacity.
const SWEEP_INTERVAL: Duration = Duration::from_secs(120);

/// Allowance for the time between a package upload and the creation of its job.
const UPLOAD_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Health check timeout of the store.
const STORE_LIMIT: Duration = Duration::from_secs(2);

impl Jobs {
    /// Sweeps immediately, then every two minutes.
    pub(super) async fn sweep_executor(&self) -> Infallible {
        let mut due = tokio::time::interval(SWEEP_INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            self.sweep_executor_once().await;
        }
    }

    pub(super) async fn sweep_executor_once(&self) {
        if let Err(error) = self.services.executor.sweep().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "ended attempts could not be removed from their executor yet");
        }
    }

    /// Expiry cutoff of packages and environments by last use: `retention` ago, or the creation of the oldest
    /// unfinished job if earlier.
    pub async fn unused_since(&self, retention: Duration) -> Result<Timestamp, JobsError> {
        let mut since = self.services.clock.now().checked_sub(retention).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        while let Some(job) = jobs.try_next().await? {
            if !job.state.is_final() {
                since = since.min(job.create_time.checked_sub(UPLOAD_TIME).unwrap_or(Timestamp::UNIX_EPOCH));
            }
        }
        Ok(since)
    }

    /// Deletes the jobs that ended before `time`, except those whose trials an unfinished job reuses. Returns the
    /// deleted ones. A job that cannot be deleted is logged, and stays.
    ///
    /// # Errors
    /// If the jobs cannot be read.
    pub async fn delete_ended_before(&self, time: Timestamp) -> Result<Vec<JobId>, JobsError> {
        let has_expired = |job: &Job| job.state.is_final() && job.end_time.is_some_and(|end| end < time);
        let mut deleted = Vec::new();
        for id in self.pick(|job| has_expired(&job).then(|| job.id.clone())).await? {
            match self.delete_if(&id, has_expired).await {
                Ok(true) => deleted.push(id),
                Ok(false) | Err(JobsError::Needed { .. } | JobsError::Running { .. }) => {}
                Err(JobsError::Store(StoreError::NotFound { .. })) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(job.id = %id, error, "an ended job could not be deleted after its retention");
                }
            }
        }
        Ok(deleted)
    }

    /// Faults of the store (rejected writes, no response); empty if healthy.
    pub async fn store_faults(&self) -> Vec<String> {
        let rejects_writes =
            self.store_condition().borrow().fault().map(|fault| format!("the store takes no changes: {fault}"));
        let mut faults = Vec::from_iter(rejects_writes);
        match tokio::time::timeout(STORE_LIMIT, self.services.store.jobs(None, 1)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the store does not answer");
                faults.push("the store does not answer; see the server's log".to_owned());
            }
            Err(_) => faults.push("the store does not answer in time".to_owned()),
        }
        faults
    }
}
