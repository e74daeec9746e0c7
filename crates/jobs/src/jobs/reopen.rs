//! Retrying and deleting idle jobs, and changing the trial counts of any job.

use std::io;
use std::pin::pin;

use futures::TryStreamExt;

use super::running::RunningJob;
use super::{Jobs, JobsError, wrong_state};
use crate::runner::JobServices;
use tunesmith_domain::{Document, Job, JobChange, JobId, JobState, StudyId, StudyState};
use tunesmith_store::{OptionalExtension, StoreError, pages};

#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// New total: above the current one if the job has ended. `None` keeps it.
    pub max_trials: Option<u64>,
    /// New parallelism, at least 1. `None` keeps it.
    pub max_parallel_trials: Option<u64>,
    /// Training input with the new counts.
    pub training_input: Document,
    /// Expected revision; `None` for any.
    pub revision: Option<u64>,
}

impl Jobs {
    /// Retries the failed and lost trials of a job, or the program of a job without hyperparameters, and queues the job
    /// if it has ended. Trials keep their numbers, parameters and measurements.
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
            return Err(JobsError::NothingToRetry(id.clone()));
        }
        let new_attempts = if job.study.is_none() { self.attempts(&job).await?.len() } else { 0 };
        let former_attempts = job.former_attempts + new_attempts as u64;
        let change = JobChange::Retry { former_attempts, at: clock.now() };
        Ok(store.change_job(id, change).await?)
    }

    /// Changes the total and parallel trial counts of a tuning job. They apply immediately to a running job: higher
    /// counts start more trials, lower ones let running trials finish. An ended job resumes if its total grows; all its
    /// trials still inform the search.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the job has ended and the total does not grow, has no
    /// hyperparameters, or is being cancelled.
    pub async fn extend(&self, id: &JobId, extension: Extension) -> Result<Job, JobsError> {
        let _admission = self.admission.lock().await;
        let running = self.until_not_ending(id).await?;
        // Keeps the run from ending the job before it learns the new counts.
        let _ending = match &running {
            Some(running) => Some(running.ending.lock().await),
            None => None,
        };
        // Without a claim, another server runs the job and reads the counts at its next renewal.
        let own = match &running {
            Some(_) => None,
            None => self.services.claims.claim(id).await?,
        };
        let JobServices { store, clock, .. } = &*self.services;
        let Extension { max_trials, max_parallel_trials, training_input, revision } = extension;
        let changed = async {
            let was_final = store.job(id).await?.state.is_final();
            let change =
                JobChange::Extend { max_trials, max_parallel_trials, training_input, revision, at: clock.now() };
            Ok::<_, StoreError>((store.change_job(id, change).await?, was_final))
        };
        let changed = changed.await;
        if let Some(claim) = &own {
            self.services.claims.release(claim).await?;
        }
        let (job, was_final) = changed?;
        match &running {
            Some(running) if !was_final => {
                running.set_counts(&job);
                Ok(job)
            }
            _ if job.state == JobState::Queued => self.enqueue(job).await,
            _ => Ok(job),
        }
    }

    /// Deletes a job in a final state: its folder with the trial logs, then its records. Files written elsewhere, such
    /// as in the job-dir, stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if not in a final state; [`JobsError::Needed`];
    /// [`JobsError::Folder`], after which another delete continues.
    pub async fn delete(&self, id: &JobId) -> Result<(), JobsError> {
        self.delete_if(id, |_| true).await.map(|_| ())
    }

    /// Like [`Self::delete`], for a job that `accepts` selects. Returns whether it was deleted.
    pub(super) async fn delete_if(&self, id: &JobId, accepts: impl Fn(&Job) -> bool) -> Result<bool, JobsError> {
        let _admission = self.admission.lock().await;
        self.check_not_running(id, "delete").await?;
        let claim = self.claim_for(id, "delete").await?;
        let deleted = self.delete_claimed(id, accepts).await;
        self.services.claims.release(&claim).await?;
        deleted
    }

    async fn delete_claimed(&self, id: &JobId, accepts: impl Fn(&Job) -> bool) -> Result<bool, JobsError> {
        let JobServices { store, policy, claims, .. } = &*self.services;
        let job = store.job(id).await?;
        if !accepts(&job) {
            return Ok(false);
        }
        if !job.state.is_final() {
            return Err(wrong_state(&job, "delete"));
        }
        if let Some(study) = &job.study
            && let Some(dependent) = self.dependent(study).await?
        {
            return Err(JobsError::Needed { id: id.clone(), dependent });
        }
        // Folder first: records without a folder can be deleted again, but attempts in a folder without records would
        // be attributed to a later job of the same name.
        self.remove_folder(id).await?;
        if job.prediction.is_some() {
            self.services.predictions.forget(&job).await?;
        }
        store.delete_job(id).await?;
        if let Some(study) = &job.study {
            policy.forget(study);
        }
        self.services.tracking.forget(id).await?;
        // Notifies the other servers, which remove their folders.
        claims.removed(id).await?;
        claims.announce().await;
        Ok(true)
    }

    /// Removes the job's folder and its attempts in the executor.
    pub(super) async fn remove_folder(&self, id: &JobId) -> Result<(), JobsError> {
        let JobServices { executor, directory, .. } = &*self.services;
        let path = directory(id);
        match tokio::fs::remove_dir_all(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(JobsError::Folder { path, source }),
        }
        executor.forget(id).await.map_err(|source| JobsError::Folder { path, source })
    }

    /// Refuses a running job, after waiting for a run that has stored its end but not returned.
    async fn check_not_running(&self, id: &JobId, change: &'static str) -> Result<(), JobsError> {
        match self.until_not_ending(id).await? {
            Some(_) => Err(JobsError::Running { id: id.clone(), change }),
            None => Ok(()),
        }
    }

    /// Run of a job, if active; waits for a run that has stored its end but not returned.
    pub(super) async fn until_not_ending(&self, id: &JobId) -> Result<Option<RunningJob>, JobsError> {
        loop {
            let ended = self.ended.notified();
            let Some(running) = self.state().running.get(id).cloned() else { return Ok(None) };
            if !self.services.store.job(id).await?.state.is_final() {
                return Ok(Some(running));
            }
            ended.await;
        }
    }

    /// Whether the study has failed trials, or fewer trials than requested.
    async fn has_work_left(&self, job: &Job) -> Result<bool, JobsError> {
        let Some(study) = &job.study else { return Ok(false) };
        let store = &*self.services.store;
        let mut trials = pin!(pages::trials(store, study));
        let mut count = 0;
        while let Some(trial) = trials.try_next().await? {
            if trial.has_failed() || !trial.state.is_final() {
                return Ok(true);
            }
            count += 1;
        }
        // A completed study with fewer trials has exhausted its search space.
        Ok(count < job.plan()?.max_trials && store.study(study).await?.state != StudyState::Completed)
    }

    /// An unfinished job with the trials of `study` as prior knowledge.
    async fn dependent(&self, study: &StudyId) -> Result<Option<JobId>, JobsError> {
        let store = &*self.services.store;
        let mut jobs = pin!(pages::jobs(store, None));
        while let Some(job) = jobs.try_next().await? {
            let Some(own) = job.study.as_ref().filter(|own| !job.state.is_final() && *own != study) else { continue };
            let own = store.study(own).await.optional()?;
            if own.is_some_and(|own| own.sources().contains(study)) {
                return Ok(Some(job.id.clone()));
            }
        }
        Ok(None)
    }
}
