//! Retries, extends and deletes jobs that are not being run.

use std::io;
use std::pin::pin;

use futures::TryStreamExt;

use super::{Jobs, JobsError};
use crate::pages;
use crate::runner::JobServices;
use tunesmith_domain::{Document, Job, JobChange, JobId, JobState, StudyId, StudyState, TransitionError, TrialState};
use tunesmith_executor::{ExecutorJobId, ExecutorJobState};
use tunesmith_store::StoreError;

/// More trials for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// The new number of trials, more than the present one.
    pub max_trials: u64,
    /// The training input of the job with that number.
    pub training_input: Document,
    /// The revision that the job must have; `None` for any.
    pub revision: Option<u64>,
}

impl Jobs {
    /// Runs the failed and lost trials of a job again, or the program of a job without hyperparameters, and queues the
    /// job if it has ended. The trials keep their numbers, parameters and measurements.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the job is being cancelled, or its only program has not
    /// failed; [`JobsError::Running`]; [`JobsError::NothingToRetry`].
    pub async fn retry(&self, id: &JobId) -> Result<Job, JobsError> {
        let _admission = self.admission.lock().await;
        self.check_not_running(id, "retry").await?;
        let claim = self.claim_for(id, "retry").await?;
        let changed = self.retry_claimed(id).await;
        self.services.claims.release(&claim).await?;
        self.enqueue(changed?).await
    }

    async fn retry_claimed(&self, id: &JobId) -> Result<Job, JobsError> {
        let JobServices { store, clock, .. } = &*self.services;
        let job = store.job(id).await?;
        if job.state == JobState::Succeeded && job.study.is_some() && !self.has_work_left(&job).await? {
            return Err(JobsError::NothingToRetry { id: id.clone() });
        }
        let former_attempts = self.attempts(&job).await?;
        let change = JobChange::Retry { former_attempts, at: clock.now() };
        Ok(store.change_job(id, change).await?)
    }

    /// Raises the number of trials of a tuning job, and queues the job if it has ended. All its trials remain the
    /// knowledge of its search.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the number is not raised, or the job has no hyperparameters or
    /// is being cancelled; [`JobsError::Running`].
    pub async fn extend(&self, id: &JobId, extension: Extension) -> Result<Job, JobsError> {
        let _admission = self.admission.lock().await;
        self.check_not_running(id, "extend").await?;
        let claim = self.claim_for(id, "extend").await?;
        let JobServices { store, clock, .. } = &*self.services;
        let Extension { max_trials, training_input, revision } = extension;
        let change = JobChange::Extend { max_trials, training_input, revision, at: clock.now() };
        let changed = store.change_job(id, change).await;
        self.services.claims.release(&claim).await?;
        self.enqueue(changed?).await
    }

    /// Deletes a job in a final state: its folder with the logs of its trials, then its records. What its programs wrote
    /// elsewhere, such as into the job-dir, is kept.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if it is not in a final state; [`JobsError::Needed`];
    /// [`JobsError::Folder`], after which deleting again continues.
    pub async fn delete(&self, id: &JobId) -> Result<(), JobsError> {
        let _admission = self.admission.lock().await;
        self.check_not_running(id, "delete").await?;
        let claim = self.claim_for(id, "delete").await?;
        let deleted = self.delete_claimed(id).await;
        self.services.claims.release(&claim).await?;
        deleted
    }

    async fn delete_claimed(&self, id: &JobId) -> Result<(), JobsError> {
        let JobServices { store, policy, executor, directory, .. } = &*self.services;
        let job = store.job(id).await?;
        if !job.state.is_final() {
            return Err(StoreError::Refused(TransitionError::WrongState {
                resource: format!("job {id}"),
                state: job.state.to_string(),
                change: "delete",
            })
            .into());
        }
        if let Some(study) = &job.study
            && let Some(dependent) = self.dependent(study).await?
        {
            return Err(JobsError::Needed { id: id.clone(), dependent });
        }
        // The folder first: records without a folder can be deleted again, but the attempts in a folder without records
        // would be taken for those of a later job of the same name.
        let path = directory(id);
        match tokio::fs::remove_dir_all(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(JobsError::Folder { path, source }),
        }
        executor.forget(id).await.map_err(|source| JobsError::Folder { path, source })?;
        store.delete_job(id).await?;
        if let Some(study) = &job.study {
            policy.forget(study);
        }
        Ok(())
    }

    /// Refuses a job that is being run. Waits for a run that has stored the end of its job, and is about to return.
    async fn check_not_running(&self, id: &JobId, change: &'static str) -> Result<(), JobsError> {
        loop {
            let ended = self.ended.notified();
            if !self.state().running.contains_key(id) {
                return Ok(());
            }
            if !self.services.store.job(id).await?.state.is_final() {
                return Err(JobsError::Running { id: id.clone(), change });
            }
            ended.await;
        }
    }

    /// Whether the study of `job` has failed trials, or fewer trials than the job asks for.
    async fn has_work_left(&self, job: &Job) -> Result<bool, JobsError> {
        let Some(study) = &job.study else { return Ok(false) };
        let store = &*self.services.store;
        let mut trials = pin!(pages::trials(store, study));
        let mut count = 0;
        while let Some(trial) = trials.try_next().await? {
            if trial.state == TrialState::Infeasible || !trial.state.is_final() {
                return Ok(true);
            }
            count += 1;
        }
        // A completed study with fewer trials has tried every point of its search space.
        Ok(count < job.plan()?.max_trials && store.study(study).await?.state != StudyState::Completed)
    }

    /// Number of attempts at the program of a job without a study.
    async fn attempts(&self, job: &Job) -> Result<u64, JobsError> {
        let mut attempts = job.former_attempts;
        if job.study.is_some() {
            return Ok(attempts);
        }
        loop {
            let next = ExecutorJobId { job: job.id.clone(), trial: None, attempt: attempts + 1 };
            if self.services.executor.state(&next).await? == ExecutorJobState::Unknown {
                return Ok(attempts);
            }
            attempts += 1;
        }
    }

    /// An unfinished job whose prior knowledge includes the trials of `study`.
    async fn dependent(&self, study: &StudyId) -> Result<Option<JobId>, JobsError> {
        let store = &*self.services.store;
        let mut jobs = pin!(pages::jobs(store, None));
        while let Some(job) = jobs.try_next().await? {
            let Some(own) = job.study.as_ref().filter(|own| !job.state.is_final() && *own != study) else { continue };
            match store.study(own).await {
                Ok(own) if own.prior_studies.contains(study) => return Ok(Some(job.id.clone())),
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}
