//! Retries and deletes jobs that are not being run, and changes the numbers of trials of any job.

use std::io;
use std::pin::pin;

use futures::TryStreamExt;

use super::running::RunningJob;
use super::{Jobs, JobsError};
use crate::pages;
use crate::runner::JobServices;
use tunesmith_domain::{Document, Job, JobChange, JobId, JobState, StudyId, StudyState, TransitionError};
use tunesmith_executor::{ExecutorJobId, ExecutorJobState};
use tunesmith_store::StoreError;

/// Other numbers of trials for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// The new number of trials: more than the present one if the job has ended. `None` keeps it.
    pub max_trials: Option<u64>,
    /// The new number of trials at once, at least 1. `None` keeps it.
    pub max_parallel_trials: Option<u64>,
    /// The training input of the job with these numbers.
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

    /// Changes the numbers of trials of a tuning job, in all and at once. A running job takes them over at once: a higher
    /// number starts more trials, a lower one lets the running ones end. A job that has ended goes on if it has more trials
    /// in all. All its trials remain the knowledge of its search.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if the job has ended and the number is not raised, or the job has no
    /// hyperparameters or is being cancelled.
    pub async fn extend(&self, id: &JobId, extension: Extension) -> Result<Job, JobsError> {
        let _admission = self.admission.lock().await;
        let running = self.until_not_ending(id).await?;
        // The run does not end the job before it knows the new numbers.
        let _ending = match &running {
            Some(running) => Some(running.ending.lock().await),
            None => None,
        };
        // Without a claim another server runs the job, and takes the numbers over when it renews its own.
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
        let JobServices { store, policy, claims, .. } = &*self.services;
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
        self.remove_folder(id).await?;
        store.delete_job(id).await?;
        if let Some(study) = &job.study {
            policy.forget(study);
        }
        // Other servers that have run it remove their folders.
        claims.removed(id).await?;
        claims.announce().await;
        Ok(())
    }

    /// Removes the folder of a job, and what the executor knows of its runs.
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

    /// Refuses a job that is being run. Waits for a run that has stored the end of its job, and is about to return.
    async fn check_not_running(&self, id: &JobId, change: &'static str) -> Result<(), JobsError> {
        match self.until_not_ending(id).await? {
            Some(_) => Err(JobsError::Running { id: id.clone(), change }),
            None => Ok(()),
        }
    }

    /// Returns the run of a job, if it is being run. Waits for a run that has stored the end of its job, and is about to
    /// return.
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

    /// Whether the study of `job` has failed trials, or fewer trials than the job asks for.
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
