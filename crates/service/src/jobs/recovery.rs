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
use tunesmith_domain::Job;
use tunesmith_executor::{ExecutorJobId, ExecutorJobState};

impl Jobs {
    /// Reserves the resources of the running programs of the unfinished `job`.
    pub(super) async fn reserve_grants(self: &Arc<Self>, job: &Job) -> Result<(), JobsError> {
        if self.services.pool.is_unlimited() || job.start_time.is_none() {
            return Ok(());
        }
        let Some(study) = &job.study else { return self.reserve_single_run(job).await };
        let mut trials = pin!(pages::open_trials(&*self.services.store, study));
        while let Some(trial) = trials.try_next().await? {
            let id = ExecutorJobId { job: job.id.clone(), trial: Some(trial.id), attempt: trial.attempt };
            self.reserve_grant(job, id).await?;
        }
        Ok(())
    }

    /// Reserves the resources of the last attempt at a job without hyperparameters.
    async fn reserve_single_run(self: &Arc<Self>, job: &Job) -> Result<(), JobsError> {
        for attempt in job.former_attempts + 1.. {
            let id = ExecutorJobId { job: job.id.clone(), trial: None, attempt };
            if self.services.executor.state(&id).await? == ExecutorJobState::Unknown {
                break;
            }
            self.reserve_grant(job, id).await?;
        }
        Ok(())
    }

    async fn reserve_grant(self: &Arc<Self>, job: &Job, id: ExecutorJobId) -> Result<(), JobsError> {
        let services = &self.services;
        if services.executor.state(&id).await? != ExecutorJobState::Running {
            return Ok(());
        }
        let Some(replicas) = services.executor.submitted(&id).await? else { return Ok(()) };
        let (resources, devices) = submitted_resources(&replicas);
        let claim = claim(job, id.trial, resources, services.clock.now());
        services.pool.reserve(id.clone(), claim, devices);
        let services = Arc::clone(services);
        tokio::spawn(async move {
            // If the executor cannot tell, the run of the job takes the grant over.
            if services.executor.wait(&id).await.is_ok() {
                services.pool.release_reserved(&id);
            }
        });
        Ok(())
    }
}
