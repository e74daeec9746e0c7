//! The resources of programs that an earlier process started.
//!
//! They are reserved before any job runs, so that no other program gets them. The run of their job takes them over; if the
//! program ends before that, they are free.

use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;

use super::{Jobs, JobsError};
use crate::pages;
use crate::runner::{claim, submitted_resources};
use tunesmith_domain::{Job, JobId};
use tunesmith_executor::{ExecutorError, ExecutorJobId, ExecutorJobState};
use tunesmith_store::StoreError;

impl Jobs {
    /// Reserves the resources of the running programs of this machine, and queues the unfinished jobs of the store that no
    /// other server runs. Call it once, before any other method.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn resume_unfinished(&self) -> Result<(), JobsError> {
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        while let Some(job) = jobs.try_next().await? {
            if job.state.is_final() {
                continue;
            }
            match self.reserve_grants::<JobsError>(&job).await {
                // Another server has ended and deleted it meanwhile.
                Err(JobsError::Store(StoreError::NotFound { .. })) => {}
                // Its run takes the resources over, once its executor can be reached.
                Err(JobsError::Executor(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(job.id = %job.id, error, "the resources of a job's programs could not be reserved");
                }
                reserved => reserved?,
            }
        }
        self.services.pool.renew().await?;
        Ok(self.look_for_jobs().await?)
    }

    /// Reserves the resources of the running programs of the unfinished `job`.
    pub(super) async fn reserve_grants<E>(&self, job: &Job) -> Result<(), E>
    where
        E: From<StoreError> + From<ExecutorError>,
    {
        if self.services.pool.is_unlimited() || job.start_time.is_none() {
            return Ok(());
        }
        let Some(study) = &job.study else { return self.reserve_single_run::<E>(job).await };
        let mut trials = pin!(pages::open_trials(&*self.services.store, study));
        while let Some(trial) = trials.try_next().await? {
            let id = ExecutorJobId { job: job.id.clone(), trial: Some(trial.id), attempt: trial.attempt };
            self.reserve_grant::<E>(job, id).await?;
        }
        Ok(())
    }

    /// Reserves the resources of the last attempt at a job without hyperparameters.
    async fn reserve_single_run<E>(&self, job: &Job) -> Result<(), E>
    where
        E: From<StoreError> + From<ExecutorError>,
    {
        for attempt in job.former_attempts + 1.. {
            let id = ExecutorJobId { job: job.id.clone(), trial: None, attempt };
            if self.services.executor.state(&id).await? == ExecutorJobState::Unknown {
                break;
            }
            self.reserve_grant::<E>(job, id).await?;
        }
        Ok(())
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

    /// Frees what is reserved for the programs of a job whose run failed when they end, unless another run takes it over.
    pub(super) fn release_reserved(&self, job: &JobId) {
        self.services.pool.reserved(job).into_iter().for_each(|id| self.release_at_end(id));
    }

    fn release_at_end(&self, id: ExecutorJobId) {
        let services = Arc::clone(&self.services);
        tokio::spawn(async move {
            // If the executor cannot tell, the run of the job takes the grant over.
            if services.executor.wait(&id).await.is_ok() {
                services.pool.release_reserved(&id);
            }
        });
    }
}
