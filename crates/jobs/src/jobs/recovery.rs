//! Resources of programs started by an earlier process.
//!
//! Reserved before any job runs, then taken over by the run of their job; freed if the program ends first.

use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;

use super::{Jobs, JobsError};
use crate::runner::{claim, submitted_resources};
use tunesmith_domain::{Job, JobId};
use tunesmith_executor::{ExecutorError, ExecutorJobId, ExecutorJobState};
use tunesmith_store::{StoreError, pages};

impl Jobs {
    /// Reserves the resources of this machine's running programs, and queues the unfinished jobs not run by other
    /// servers. Call it once, before any other method.
    pub async fn resume_unfinished(&self) -> Result<(), JobsError> {
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        while let Some(job) = jobs.try_next().await? {
            if job.state.is_final() {
                continue;
            }
            match self.reserve_grants::<JobsError>(&job).await {
                // Ended and deleted by another server meanwhile.
                Err(JobsError::Store(StoreError::NotFound { .. })) => {}
                // Its run takes the resources over, once the executor is reachable.
                Err(JobsError::Executor(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(job.id = %job.id, error, "the resources of a job's programs could not be reserved");
                }
                reserved => reserved?,
            }
        }
        self.services.pool.renew().await?;
        Ok(self.discover_jobs().await?)
    }

    /// Reserves the resources of the unfinished job's running programs.
    pub(super) async fn reserve_grants<E>(&self, job: &Job) -> Result<(), E>
    where
        E: From<StoreError> + From<ExecutorError>,
    {
        if self.services.pool.is_unlimited() || job.start_time.is_none() {
            return Ok(());
        }
        let Some(study) = &job.study else {
            for id in self.attempts(job).await? {
                self.reserve_grant::<E>(job, id).await?;
            }
            return Ok(());
        };
        let mut trials = pin!(pages::open_trials(&*self.services.store, study));
        while let Some(trial) = trials.try_next().await? {
            let id = ExecutorJobId { job: job.id.clone(), trial: Some(trial.id), attempt: trial.attempt };
            self.reserve_grant::<E>(job, id).await?;
        }
        Ok(())
    }

    /// Attempts at a job without hyperparameters since its last retry, up to the first one that was never submitted.
    pub(super) async fn attempts(&self, job: &Job) -> Result<Vec<ExecutorJobId>, ExecutorError> {
        let mut known = Vec::new();
        for attempt in job.former_attempts + 1.. {
            let id = ExecutorJobId { job: job.id.clone(), trial: None, attempt };
            if self.services.executor.state(&id).await? == ExecutorJobState::Unknown {
                break;
            }
            known.push(id);
        }
        Ok(known)
    }

    async fn reserve_grant<E>(&self, job: &Job, id: ExecutorJobId) -> Result<(), E>
    where
        E: From<StoreError> + From<ExecutorError>,
    {
        let services = &self.services;
        if !services.executor.state(&id).await?.is_open() {
            return Ok(());
        }
        let Some(replicas) = services.executor.submitted(&id).await? else { return Ok(()) };
        let (resources, devices) = submitted_resources(&replicas);
        let claim = claim(job, id.trial, resources, services.clock.now());
        services.pool.reserve(id.clone(), claim, devices);
        self.release_at_end(id);
        Ok(())
    }

    /// Frees the reservations of a failed run as its programs end, unless another run takes them over.
    pub(super) fn release_reserved(&self, job: &JobId) {
        self.services.pool.reserved(job).into_iter().for_each(|id| self.release_at_end(id));
    }

    fn release_at_end(&self, id: ExecutorJobId) {
        let services = Arc::clone(&self.services);
        tokio::spawn(async move {
            // If the executor cannot tell, the job's run takes the grant over.
            if services.executor.wait(&id).await.is_ok() {
                services.pool.release_reserved(&id);
            }
        });
    }
}
