//! The jobs service: submits, runs, cancels and reports jobs.
//!
//! [`Jobs::run`] runs the queued jobs, several at once and by priority, and [`Jobs::run_one`] runs a single one. Jobs
//! that an earlier process left unfinished are queued by [`Jobs::resume_unfinished`].

mod cancel;
mod handling;
mod log_space;
mod overview;
mod queue;
mod queue_limits;
mod queued_run;
mod recovery;
mod reopen;
mod retention;
mod retries;
mod running;
mod sharing;
mod slots;
mod suspects;
mod sweeping;
#[cfg(test)]
mod tests;
mod trials;

pub use log_space::{LogLimiter, LogLimits};
pub use overview::QueueLoad;
pub use queue_limits::QueueLimits;
pub use reopen::Extension;
pub use slots::SlotCounts;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tunesmith_algorithms::problem::ValueError;

use self::queue::{Moment, Queue};
use self::retries::AfterFailure;
use self::running::{Registered, RunningJob};
use self::slots::{SlotKind, Slots};
use self::suspects::Next;
use super::pages;
use super::resource_pool::Waiting;
use super::runner::{
    CANCELLED_BY_USER, Control, JobOutcome, JobServices, Latest, RunControl, RunError, RunSettings, until_at_least,
};
use super::submission::{newest_job, submit};
use super::{Submission, SubmitError, Submitted};
use tunesmith_domain::{Job, JobChange, JobId, JobState, PlanError, Study, Trial};
use tunesmith_executor::ExecutorError;
use tunesmith_store::{Condition, StoreError};
use tunesmith_telemetry::telemetry;

pub use self::retries::RETRY_PAUSES;

/// Why a request about a job failed. Nothing was changed, except where [`StoreError`] states that the outcome is
/// unknown.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// A record could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job could not be submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The stored plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The job is being run.
    #[error("cannot {change} job {id} while it runs: wait for its end, or cancel it")]
    Running {
        /// The job.
        id: JobId,
        /// The refused change, as a verb.
        change: &'static str,
    },
    /// The job has no failed trial, and has all its trials.
    #[error("job {id} has no failed trial to run again; raise its number of trials to run more")]
    NothingToRetry {
        /// The job.
        id: JobId,
    },
    /// The job runs its program once.
    #[error("job {id} has no hyperparameters, and so no trials")]
    NoStudy {
        /// The job.
        id: JobId,
    },
    /// The job has as many trials as it asks for.
    #[error("job {id} has all its trials, maxTrials is {max_trials}: raise maxTrials before a trial is added")]
    NoTrialLeft {
        /// The job.
        id: JobId,
        /// The number of its trials.
        max_trials: u64,
    },
    /// A point outside the search space.
    #[error("the parameters are outside the job's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// The trials of the job are prior knowledge of an unfinished one.
    #[error("job {id} cannot be deleted: the unfinished job {dependent} learns from its trials")]
    Needed {
        /// The job.
        id: JobId,
        /// The unfinished job.
        dependent: JobId,
    },
    /// The folder of the job cannot be removed. The job is kept.
    #[error("the folder {path} cannot be removed")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// As many jobs wait as are allowed.
    #[error("{reason}: wait until some have started, or cancel some")]
    QueueFull {
        /// The limit, with its number.
        reason: String,
    },
    /// The executor cannot tell what it has run.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// How [`Jobs::run`] runs the queue.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Base address for reports over HTTP.
    pub endpoint: String,
    /// Maximum numbers of jobs that run at once.
    pub slots: SlotCounts,
}

/// The jobs of one store.
pub struct Jobs {
    pub(crate) services: Arc<JobServices>,
    state: Mutex<State>,
    /// Notified when a job was queued or cancelled.
    changed: Notify,
    /// Notified when a run of a job has ended.
    ended: Notify,
    /// Held while a job is created, so that the limits on queued jobs hold for jobs that are created at the same time.
    creation: tokio::sync::Mutex<()>,
    /// The limits on queued jobs.
    queue_limits: QueueLimits,
    /// Held while a job starts to run, is retried, extended or deleted, so that only one of these happens at a time.
    admission: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// The jobs that have left the queue and are being claimed.
    starting: HashSet<JobId>,
    /// The running jobs, and those that wait to be run again after a failure.
    running: HashMap<JobId, RunningJob>,
    /// The slots, while the queue is run.
    slots: Option<Slots>,
    /// Number of failed runs in succession.
    failed_runs: HashMap<JobId, usize>,
    /// Why jobs wait to be run again.
    retry_reasons: HashMap<JobId, String>,
    /// The job that is handled for some time before another one starts, since former processes died while they handled it.
    on_probation: Option<JobId>,
    /// Number of deaths of the server in a row for which jobs are started one by one, if they are.
    deaths: Option<u32>,
}

impl State {
    /// Removes and returns the job to start next among those for whose slots `has_free` is true. It is not queued again until it has been claimed, or another server
    /// turns out to run it.
    fn start_next(&mut self, has_free: impl Fn(SlotKind) -> bool) -> Option<(JobId, SlotKind)> {
        let (id, slot) = self.queue.pop(has_free)?;
        self.starting.insert(id.clone());
        Some((id, slot))
    }

    /// Whether the job `id` is run by this process, or is about to be.
    fn is_started(&self, id: &JobId) -> bool {
        self.running.contains_key(id) || self.starting.contains(id)
    }
}

/// A job with its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReport {
    /// The job.
    pub job: Job,
    /// Its study, if it tunes hyperparameters.
    pub study: Option<Study>,
    /// The study's trials.
    pub trials: Vec<Trial>,
    /// Number of jobs ahead of it in the queue; `None` if it is not queued.
    pub position: Option<usize>,
    /// Why it waits, or trials of it.
    pub waiting: Vec<Waiting>,
}

impl Jobs {
    /// Creates the service with an empty queue. [`Jobs::resume_unfinished`] queues the jobs of the store.
    pub fn new(services: JobServices) -> Self {
        Self {
            services: Arc::new(services),
            state: Mutex::default(),
            changed: Notify::new(),
            ended: Notify::new(),
            creation: tokio::sync::Mutex::default(),
            queue_limits: QueueLimits::default(),
            admission: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the limits on queued jobs.
    #[must_use]
    pub fn with_queue_limits(mut self, limits: QueueLimits) -> Self {
        self.queue_limits = limits;
        self
    }

    /// The folder of relative job folders of `project`; `None` for the working directory.
    pub fn job_dir_base(&self, project: &str) -> Option<PathBuf> {
        self.services.allowed_folders.base(project)
    }

    /// Stores a job, or finds the job that was submitted with the same content before. Does not queue it.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was stored.
    pub async fn submit(&self, submission: Submission, random_seed: u64) -> Result<Submitted, SubmitError> {
        submit(&self.services, submission, random_seed).await
    }

    /// Stores a new job and queues it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if there is a job of this name; [`JobsError::Submit`].
    pub async fn create(&self, submission: Submission, random_seed: u64) -> Result<Job, JobsError> {
        if let Some(id) = &submission.id {
            match self.services.store.job(id).await {
                Ok(_) => return Err(StoreError::AlreadyExists { resource: format!("job {id}") }.into()),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let _creation = self.creation.lock().await;
        // Other servers add no job until this one is stored.
        let _counted = self.check_queue_limits(&submission).await?;
        let submitted = self.submit(submission, random_seed).await?;
        let Submitted::Created(job) = submitted else {
            return Err(StoreError::AlreadyExists { resource: format!("job {}", submitted.job().id) }.into());
        };
        self.enqueue(job).await
    }

    /// Returns the job `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn job(&self, id: &JobId) -> Result<Job, JobsError> {
        Ok(self.services.store.job(id).await?)
    }

    /// Checks that the store can be read.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn check_store(&self) -> Result<(), JobsError> {
        self.services.store.jobs(None, 1).await?;
        Ok(())
    }

    /// Returns whether the store takes changes, and every change of that.
    pub fn store_condition(&self) -> watch::Receiver<Condition> {
        self.services.store.condition()
    }

    /// Returns the newest job with the content of `submission`, in any state and with any number of trials.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn newest_like(&self, submission: &Submission) -> Result<Option<Job>, JobsError> {
        Ok(newest_job(&*self.services.store, submission, |_| true).await?)
    }

    /// Returns the job `id` with its trials, without them if its study is missing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn report(&self, id: &JobId) -> Result<JobReport, JobsError> {
        let store = &self.services.store;
        let job = store.job(id).await?;
        let position = self.state().queue.position(id);
        let waiting = self.waiting(&job);
        let Some(study) = &job.study else {
            return Ok(JobReport { job, study: None, trials: Vec::new(), position, waiting });
        };
        let study = match store.study(study).await {
            Ok(study) => study,
            Err(error @ StoreError::NotFound { .. }) => {
                tracing::warn!(job.id = %id, error = %error, "the trials of a job are missing");
                return Ok(JobReport { job, study: None, trials: Vec::new(), position, waiting });
            }
            Err(error) => return Err(error.into()),
        };
        let trials: Vec<Trial> = pages::trials(&**store, &study.id).try_collect().await?;
        let waiting = self.with_engine(waiting, &study.id, &trials);
        Ok(JobReport { job, study: Some(study), trials, position, waiting })
    }

    /// Returns up to `limit` jobs of `project` that `wanted` accepts, by ID, starting after `after`, and whether there
    /// are more.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn list(
        &self,
        project: &str,
        wanted: impl Fn(&Job) -> bool + Send,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<(Vec<Job>, bool), JobsError> {
        let mut jobs = pin!(pages::jobs(&*self.services.store, after));
        let mut found = Vec::new();
        while let Some(job) = jobs.try_next().await? {
            if job.id.parts().0 != project || !wanted(&job) {
                continue;
            }
            if found.len() == limit {
                return Ok((found, true));
            }
            found.push(job);
        }
        Ok((found, false))
    }

    /// Applies a change that does not affect the run of the job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    pub async fn change(&self, id: &JobId, change: JobChange) -> Result<Job, JobsError> {
        Ok(self.services.store.change_job(id, change).await?)
    }

    /// Runs the queued jobs until `control` is raised. Then ends the running ones in the way of `control`, so that the
    /// next process can resume them, and waits for them.
    pub async fn run(self: &Arc<Self>, settings: QueueSettings, mut control: watch::Receiver<Control>) {
        let slots = Slots::new(settings.slots);
        self.state().slots = Some(slots.clone());
        let mut running = JoinSet::new();
        let mut waiting = JoinSet::new();
        let mut sharing = pin!(self.share());
        let mut suspects = self.suspects().await;
        let mut sweeping = pin!(self.sweep_executor());
        loop {
            self.end_overdue().await;
            // A run that was interrupted leaves its slot to the next process.
            if *control.borrow() >= Control::Drain {
                break;
            }
            let held_until = loop {
                let has_free = |kind| slots.has_free(kind);
                let next = suspects.next(&mut self.state(), running.len(), has_free, Instant::now());
                match next {
                    Next::Start(id, kind, start) => {
                        let slot = slots.take(kind);
                        let (endpoint, control) = (settings.endpoint.clone(), control.clone());
                        let run = Arc::clone(self).run_queued(id, start, endpoint, control);
                        running.spawn(async move {
                            let _slot = slot;
                            run.await
                        });
                    }
                    Next::Wait(until) => break until,
                }
            };
            let deadline = self.state().queue.next_deadline().into_iter().chain(held_until).min();
            let overdue = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            self.record_load(running.len(), &slots);
            {
                let mut state = self.state();
                state.deaths = suspects.deaths();
            }
            tokio::select! {
                () = until_at_least(&mut control, Control::Drain) => break,
                () = self.changed.notified() => {}
                Some(ended) = running.join_next() => match ended {
                    // Its slot is free for another job until then.
                    Ok(Some(retry)) => drop(waiting.spawn(Arc::clone(self).queue_again(retry))),
                    Ok(None) => {}
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a job is no longer run"),
                },
                Some(_) = waiting.join_next() => {}
                () = overdue => {}
                () = &mut sharing => {}
                never = &mut sweeping => match never {},
            }
        }
        waiting.abort_all();
        let ended = async { while running.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            // Claims are kept until the last run has ended.
            () = &mut sharing => {}
        }
        let level = *control.borrow();
        self.release_claims(level).await;
    }

    /// Runs the job `id`, and no other, to its end or until `control` is raised. After a failure it is run again a
    /// limited number of times; then the job fails.
    ///
    /// # Errors
    /// [`RunError`] if the store failed, or if this version cannot read the plan; the job can be resumed.
    pub async fn run_one(
        &self,
        id: &JobId,
        settings: RunSettings,
        mut control: watch::Receiver<Control>,
    ) -> Result<JobOutcome, RunError> {
        // No program gets the devices of one that an earlier process started.
        self.reserve_grants::<RunError>(&self.services.store.job(id).await?).await?;
        let Some(Registered { cancelled, live, is_taken_over, .. }) = self.register(id).await? else {
            return Err(StoreError::NotOwner { job: id.clone() }.into());
        };
        let mut sharing = pin!(self.share());
        let mut sweeping = pin!(self.sweep_executor());
        let outcome = loop {
            let (cancelled, live) = (cancelled.clone(), live.clone());
            let run_control = RunControl { level: control.clone(), cancelled, live, is_taken_over };
            let run = tokio::select! {
                run = self.run_once(id, &settings, run_control) => run,
                () = &mut sharing => return Err(StoreError::NotOwner { job: id.clone() }.into()),
                never = &mut sweeping => match never {},
            };
            let (error, after) = match run {
                Ok(outcome) => break Ok(outcome),
                Err(failure) => failure,
            };
            match after {
                AfterFailure::Ended(job) => break Ok(JobOutcome::Ended(*job)),
                AfterFailure::Left => break Err(error),
                AfterFailure::RunAgain { pause, message } => {
                    if let Some(events) = &settings.events {
                        // The receiver may have been dropped.
                        let _ = events.send(super::JobEvent::Warning { message });
                    }
                    tokio::select! {
                        biased;
                        () = until_at_least(&mut control, Control::Drain) => {
                            let at = self.services.clock.now();
                            let queued = JobChange::Become { state: JobState::Queued, error_message: String::new(), at };
                            break self.services_of(id).store.change_job(id, queued).await.map(JobOutcome::Interrupted).map_err(RunError::from);
                        }
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        };
        if self.is_lost(id) {
            self.unregister(id);
            self.stop_superseded(id, Latest::Killed).await;
            return outcome;
        }
        let level = *control.borrow();
        self.release(id, level).await;
        outcome
    }

    fn record_load(&self, running: usize, slots: &Slots) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        telemetry().jobs_queued.set(count(self.state().queue.len()));
        telemetry().jobs_running.set(count(running));
        telemetry().job_slots.set(count(slots.load(self.usual_slot_kind()).1));
    }

    fn moment(&self) -> Moment {
        Moment { time: self.services.clock.now(), instant: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
