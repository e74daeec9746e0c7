//! The jobs service: submits, runs, cancels and reports jobs.
//!
//! [`Jobs::run`] processes the queue by priority and concurrently; [`Jobs::run_one`] runs a single job.
//! [`Jobs::resume_unfinished`] queues the jobs left unfinished by an earlier process.

mod cancel;
mod handling;
mod log_space;
mod maintenance;
mod overview;
mod queue;
mod queue_limits;
mod queued_run;
mod recovery;
mod reopen;
mod retries;
mod running;
mod sharing;
mod slots;
mod suspects;
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
use std::sync::Arc;

use futures::TryStreamExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tunesmith_algorithms::problem::ValueError;

use self::queue::{Moment, Queue};
use self::retries::AfterFailure;
use self::running::{Registered, RunningJob};
use self::slots::{SlotKind, Slots};
use self::suspects::Next;
use super::resource_pool::PoolLimits;
use super::runner::{
    CANCELLED_BY_USER, Control, JobOutcome, JobServices, LatestAttempt, RunControl, RunError, RunSettings, until,
    until_at_least,
};
use super::submission::{newest_job, submit};
use super::{PredictionSubmission, Submission, SubmitError, Submitted, TrackingStatus};
use tunesmith_domain::{Job, JobChange, JobFields, JobId, JobState, PlanError, Study, TransitionError, Trial, Waiting};
use tunesmith_executor::ExecutorError;
use tunesmith_store::{Condition, OptionalExtension, StoreError, pages};
use tunesmith_telemetry::telemetry;

pub use self::retries::RETRY_PAUSES;

/// Why a request failed. Nothing was changed, unless [`StoreError`] reports an unknown outcome.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot {change} job {id} while it runs: wait for its end, or cancel it")]
    Running {
        id: JobId,
        /// The refused change, as a verb.
        change: &'static str,
    },
    /// No failed trial, and the trial count is reached.
    #[error("job {0} has no failed trial to run again; raise its number of trials to run more")]
    NothingToRetry(JobId),
    #[error("job {0} has no hyperparameters, and so no trials")]
    NoStudy(JobId),
    #[error("job {id} has all its trials, maxTrials is {max_trials}: raise maxTrials before a trial is added")]
    NoTrialLeft { id: JobId, max_trials: u64 },
    /// A point outside the search space.
    #[error("the parameters are outside the job's search space: {0}")]
    ForeignPoint(#[source] ValueError),
    /// An unfinished job uses the trials as prior knowledge.
    #[error("job {id} cannot be deleted: the unfinished job {dependent} learns from its trials")]
    Needed { id: JobId, dependent: JobId },
    #[error("the folder {path} cannot be removed")]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Log files cannot be read or changed.
    #[error("the logs cannot be read")]
    Logs(#[source] std::io::Error),
    /// Queue limit reached, with its description.
    #[error("{0}: wait until some have started, or cancel some")]
    QueueFull(String),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// Refuses `change`, a verb, because of the job's state.
fn wrong_state(job: &Job, change: &'static str) -> JobsError {
    let (resource, state) = (format!("job {}", job.id), job.state.to_string());
    StoreError::Refused(TransitionError::WrongState { resource, state, change }).into()
}

#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Base address for HTTP reports.
    pub endpoint: String,
    pub slots: SlotCounts,
}

/// Jobs of one store. A missing job is [`StoreError::NotFound`], a change illegal in its state [`StoreError::Refused`].
pub struct Jobs {
    pub(crate) services: Arc<JobServices>,
    state: Mutex<State>,
    changed: Notify,
    ended: Notify,
    /// Serializes creation, so that concurrent requests respect the queue limits.
    creation: tokio::sync::Mutex<()>,
    queue_limits: Mutex<QueueLimits>,
    /// Serializes starting, retrying, extending and deleting jobs.
    admission: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Jobs between queue and claim.
    starting: HashSet<JobId>,
    /// Running jobs, and those in back-off after a failure.
    running: HashMap<JobId, RunningJob>,
    slots: Option<Slots>,
    /// Consecutive failed runs.
    failed_runs: HashMap<JobId, usize>,
    retry_reasons: HashMap<JobId, String>,
    /// Job that must survive probation before the next one starts, because earlier processes died.
    on_probation: Option<JobId>,
    /// Consecutive deaths of the server, if they make jobs start one by one.
    deaths: Option<u32>,
}

impl State {
    /// Removes the next job with a slot for which `has_free` holds. It cannot be queued again until its claim succeeds,
    /// or another server turns out to run it.
    fn start_next(&mut self, has_free: impl Fn(SlotKind) -> bool) -> Option<(JobId, SlotKind)> {
        let (id, slot) = self.queue.pop(has_free)?;
        self.starting.insert(id.clone());
        Some((id, slot))
    }

    /// Whether this process runs the job or is about to.
    fn is_started(&self, id: &JobId) -> bool {
        self.running.contains_key(id) || self.starting.contains(id)
    }
}

/// A job with its study and trials.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReport {
    pub job: Job,
    pub study: Option<Study>,
    pub trials: Vec<Trial>,
    /// Number of jobs ahead in the queue; `None` if not queued.
    pub position: Option<usize>,
    /// Why the job or its trials wait.
    pub waiting: Vec<Waiting>,
    /// Progress of the live export; `None` if the job has none.
    pub tracking: Option<TrackingStatus>,
}

impl Jobs {
    /// Starts with an empty queue; [`Jobs::resume_unfinished`] fills it from the store.
    pub fn new(services: impl Into<Arc<JobServices>>) -> Self {
        Self {
            services: services.into(),
            state: Mutex::default(),
            changed: Notify::new(),
            ended: Notify::new(),
            creation: tokio::sync::Mutex::default(),
            queue_limits: Mutex::default(),
            admission: tokio::sync::Mutex::default(),
        }
    }

    /// Replaces the limits on queued jobs, for those submitted from now on, and on trials; see
    /// [`ResourcePool::set_limits`](crate::ResourcePool::set_limits).
    pub fn set_limits(&self, queue: QueueLimits, trials: PoolLimits) {
        *self.queue_limits.lock() = queue;
        self.services.pool.set_limits(trials);
    }

    /// Base of relative job folders of `project`; `None` for the working directory.
    pub fn job_dir_base(&self, project: &str) -> Option<PathBuf> {
        self.services.allowed_folders.base(project)
    }

    /// Stores a job without queueing it, or finds an earlier one with the same content.
    pub async fn submit(&self, submission: Submission, random_seed: u64) -> Result<Submitted, SubmitError> {
        submit(&self.services, submission, random_seed).await
    }

    /// Stores a new job and queues it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a taken name; [`JobsError::Submit`].
    pub async fn create(&self, submission: Submission, random_seed: u64) -> Result<Job, JobsError> {
        if let Some(id) = &submission.id
            && self.services.store.job(id).await.optional()?.is_some()
        {
            return Err(StoreError::AlreadyExists { resource: format!("job {id}") }.into());
        }
        let _creation = self.creation.lock().await;
        // Keeps other servers from adding jobs until this one is stored.
        let _counted = self.check_queue_limits(submission.id.as_ref(), &submission.plan).await?;
        let submitted = self.submit(submission, random_seed).await?;
        let Submitted::Created(job) = submitted else {
            return Err(StoreError::AlreadyExists { resource: format!("job {}", submitted.job().id) }.into());
        };
        self.enqueue(job).await
    }

    /// Stores a new batch prediction and queues it.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a taken name; [`JobsError::QueueFull`].
    pub async fn create_prediction(&self, submission: PredictionSubmission) -> Result<Job, JobsError> {
        let PredictionSubmission { id, labels, policy, plan, prediction } = submission;
        let _creation = self.creation.lock().await;
        // Keeps other servers from adding jobs until this one is stored.
        let _counted = self.check_queue_limits(Some(&id), &plan).await?;
        let now = self.services.clock.now();
        let prediction = Some(prediction);
        let job = Job::restore(JobFields { labels, policy, prediction, ..JobFields::new(id, plan, now) });
        self.services.store.create_job(job.clone(), None).await?;
        self.enqueue(job).await
    }

    pub async fn job(&self, id: &JobId) -> Result<Job, JobsError> {
        Ok(self.services.store.job(id).await?)
    }

    pub fn store_condition(&self) -> watch::Receiver<Condition> {
        self.services.store.condition()
    }

    /// Newest job with the same content, in any state and with any number of trials.
    pub async fn newest_like(&self, submission: &Submission) -> Result<Option<Job>, JobsError> {
        Ok(newest_job(&*self.services.store, submission, |_| true).await?)
    }

    /// Returns the job with its trials, or without them if its study is missing.
    pub async fn report(&self, id: &JobId) -> Result<JobReport, JobsError> {
        let store = &self.services.store;
        let job = store.job(id).await?;
        let position = self.state().queue.position(id);
        let study = match &job.study {
            Some(study) => store.study(study).await.optional()?,
            None => None,
        };
        if study.is_none() && job.study.is_some() {
            tracing::warn!(job.id = %id, "the trials of a job are missing");
        }
        let trials: Vec<Trial> = match &study {
            Some(study) => pages::trials(&**store, &study.id).try_collect().await?,
            None => Vec::new(),
        };
        let waiting = self.waits(&job, &trials);
        let tracking = self.services.tracking.status(&job).await?;
        Ok(JobReport { job, study, trials, position, waiting, tracking })
    }

    /// Lists up to `limit` jobs of `project` accepted by `wanted`, by ID after `after`; also whether there are more.
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

    /// Applies a change that does not affect the run.
    pub async fn change(&self, id: &JobId, change: JobChange) -> Result<Job, JobsError> {
        Ok(self.services.store.change_job(id, change).await?)
    }

    /// Processes the queue until `control` is raised; then ends the running jobs accordingly, so that the next process
    /// can resume them, and waits for them.
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
            // An interrupted run leaves its slot to the next process.
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
            self.record_load(running.len(), &slots);
            self.state().deaths = suspects.deaths();
            tokio::select! {
                () = until_at_least(&mut control, Control::Drain) => break,
                () = self.changed.notified() => {}
                Some(ended) = running.join_next() => match ended {
                    // Frees its slot for another job until then.
                    Ok(Some(retry)) => drop(waiting.spawn(Arc::clone(self).queue_again(retry))),
                    Ok(None) => {}
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a job is no longer run"),
                },
                Some(_) = waiting.join_next() => {}
                () = until(deadline) => {}
                () = &mut sharing => {}
                never = &mut sweeping => match never {},
            }
        }
        waiting.abort_all();
        let ended = async { while running.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            // Claims are renewed until the last run ends.
            () = &mut sharing => {}
        }
        let level = *control.borrow();
        self.release_claims(level).await;
    }

    /// Runs one job to its end or until `control` is raised. Failed runs are retried a limited number of times before
    /// the job fails.
    ///
    /// # Errors
    /// If the store failed or this version cannot read the plan; the job can be resumed.
    pub async fn run_one(
        &self,
        id: &JobId,
        settings: RunSettings,
        mut control: watch::Receiver<Control>,
    ) -> Result<JobOutcome, RunError> {
        // Keeps devices of programs that an earlier process started from being assigned again.
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
                        // The receiver may be gone.
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
            self.stop_superseded(id, LatestAttempt::Killed).await;
            return outcome;
        }
        // Last chance of this process to remove leftovers of an outage.
        self.sweep_executor_once().await;
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
        self.state.lock()
    }
}
