//! Jobs that the service carries out by itself, several at once: begun by priority, cancelled on request, taken up again
//! after a restart.

mod queue;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use self::queue::Queue;
use super::plan::{JobPlan, PlanError};
use super::runner::{CANCELLED_BY_USER, Control, JobOutcome, JobRunner, RunError, until_at_least, until_true};
use super::{LiveTrials, Submission, SubmitError, Submitted, job_secret, submit};
use crate::clock::Clock;
use crate::search_policy::SearchPolicy;
use tunesmith_domain::{Job, JobChange, JobId, JobState, Study, TransitionError, Trial};
use tunesmith_executor::Executor;
use tunesmith_packages::Environments;
use tunesmith_store::{Store, StoreError};
use tunesmith_telemetry::telemetry;

/// How many records are read at once.
const PAGE: usize = 200;

/// How long until a job is tried again that could not be carried further.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Where and with what jobs are carried out.
pub struct Workplace {
    /// Records.
    pub store: Arc<dyn Store>,
    /// Processes.
    pub executor: Arc<dyn Executor>,
    /// Suggestions.
    pub policy: Arc<SearchPolicy>,
    /// Installed packages.
    pub environments: Arc<Environments>,
    /// Trials that run now.
    pub live: Arc<LiveTrials>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Base address for reports over HTTP.
    pub endpoint: String,
    /// The folder of a job's files.
    pub directory: Box<dyn Fn(&JobId) -> PathBuf + Send + Sync>,
    /// How many jobs run at once; at least 1.
    pub slots: usize,
}

/// Why a request about a job was not carried out. Nothing was changed, unless the store says that it does not know.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The record could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job cannot be submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The stored plan is not understood.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The jobs of the service.
pub struct Jobs {
    workplace: Workplace,
    state: Mutex<State>,
    /// Woken when there may be something to begin.
    changed: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// What cancels each job that runs.
    running: HashMap<JobId, watch::Sender<bool>>,
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
    /// How many jobs are begun before it, while it is queued.
    pub position: Option<usize>,
}

impl Jobs {
    /// The jobs that are carried out at `workplace`. Those that are there are queued by [`Jobs::take_up`], and nothing is
    /// begun before [`Jobs::run`].
    pub fn new(workplace: Workplace) -> Self {
        Self { workplace, state: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a job to the queue.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if there is one of its name; [`JobsError::Submit`].
    pub async fn create(&self, submission: Submission, random_seed: u64) -> Result<Job, JobsError> {
        let Workplace { store, clock, .. } = &self.workplace;
        if let Some(id) = &submission.id {
            match store.job(id).await {
                Ok(_) => return Err(StoreError::AlreadyExists { resource: format!("job {id}") }.into()),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let submitted = submit(&**store, submission, clock.now(), random_seed).await?;
        let Submitted::Created(job) = submitted else {
            return Err(StoreError::AlreadyExists { resource: format!("job {}", submitted.job().id) }.into());
        };
        let plan = JobPlan::of(&job)?;
        self.state().queue.push(&job, &plan);
        self.changed.notify_one();
        Ok(job)
    }

    /// The job `id`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn job(&self, id: &JobId) -> Result<Job, JobsError> {
        Ok(self.workplace.store.job(id).await?)
    }

    /// Ends well if the store answers.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn answers(&self) -> Result<(), JobsError> {
        self.workplace.store.jobs(None, 1).await?;
        Ok(())
    }

    /// The job `id` with its trials.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn report(&self, id: &JobId) -> Result<JobReport, JobsError> {
        let store = &self.workplace.store;
        let job = store.job(id).await?;
        let position = self.state().queue.position(id);
        let Some(study) = &job.study else {
            return Ok(JobReport { job, study: None, trials: Vec::new(), position });
        };
        let study = store.study(study).await?;
        let mut trials: Vec<Trial> = Vec::new();
        loop {
            let page = store.trials(&study.id, trials.last().map(|trial| trial.id), PAGE).await?;
            let is_last = page.len() < PAGE;
            trials.extend(page);
            if is_last {
                return Ok(JobReport { job, study: Some(study), trials, position });
            }
        }
    }

    /// The state of the job `id`, and the folder of its files, which need not exist.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn state_and_directory(&self, id: &JobId) -> Result<(JobState, PathBuf), JobsError> {
        let job = self.workplace.store.job(id).await?;
        Ok((job.state, (self.workplace.directory)(id)))
    }

    /// Up to `limit` jobs of `project` that `wanted` accepts, by ID, starting after `after`; the second value is whether
    /// there are more.
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
        let mut found = Vec::new();
        let mut after = after;
        loop {
            let page = self.workplace.store.jobs(after.as_ref(), PAGE).await?;
            after = page.last().map(|job| job.id.clone());
            let is_last = page.len() < PAGE;
            for job in page {
                if job.id.parts().0 != project || !wanted(&job) {
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, true));
                }
                found.push(job);
            }
            if is_last {
                return Ok((found, false));
            }
        }
    }

    /// Cancels a job: at once while it waits, otherwise as soon as its programs have ended.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if it has ended.
    pub async fn cancel(&self, id: &JobId) -> Result<(), JobsError> {
        let Workplace { store, clock, .. } = &self.workplace;
        let job = store.job(id).await?;
        if job.state.is_final() {
            return Err(StoreError::Refused(TransitionError::WrongState {
                resource: format!("job {id}"),
                state: job.state.to_string(),
                change: "cancel",
            })
            .into());
        }
        // A job that has run before may have programs that still run: it is taken up in order to stop them.
        let never_began = job.start_time.is_none() && self.state().queue.remove(id);
        let state = if never_began { JobState::Cancelled } else { JobState::Cancelling };
        let change = JobChange::Become { state, error_message: CANCELLED_BY_USER.to_owned(), at: clock.now() };
        store.change_job(id, change).await?;
        let mut now = self.state();
        now.queue.hurry(&job);
        if let Some(cancel) = now.running.get(id) {
            cancel.send_replace(true);
        }
        Ok(())
    }

    /// Applies a change that has nothing to do with the job's life.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Refused`].
    pub async fn change(&self, id: &JobId, change: JobChange) -> Result<Job, JobsError> {
        Ok(self.workplace.store.change_job(id, change).await?)
    }

    /// Carries queued jobs out until `control` is raised. Then the running ones are interrupted, to be taken up again by
    /// the next process.
    pub async fn run(self: &Arc<Self>, mut control: watch::Receiver<Control>) {
        let mut running = JoinSet::new();
        loop {
            self.cancel_overdue().await;
            while running.len() < self.workplace.slots.max(1) {
                let Some(id) = self.state().queue.pop() else { break };
                running.spawn(Arc::clone(self).carry_out(id, control.clone()));
            }
            let deadline = self.state().queue.next_deadline();
            let overdue = async {
                match deadline {
                    Some(deadline) => {
                        let left = deadline.duration_since(self.workplace.clock.now());
                        tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            self.tell_load(running.len());
            tokio::select! {
                () = until_at_least(&mut control, Control::Interrupt) => break,
                () = self.changed.notified() => {}
                Some(_) = running.join_next() => {}
                () = overdue => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Queues the jobs that a former process has left. To be called once, before anything else.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn take_up(&self) -> Result<(), JobsError> {
        let mut after = None;
        loop {
            let page = self.workplace.store.jobs(after.as_ref(), PAGE).await?;
            after = page.last().map(|job| job.id.clone());
            let is_last = page.len() < PAGE;
            for job in page.iter().filter(|job| !job.state.is_final()) {
                match JobPlan::of(job) {
                    Ok(plan) => self.state().queue.push(job, &plan),
                    Err(error) => tracing::error!(job.id = %job.id, error = %error, "a job cannot be taken up again"),
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn tell_load(&self, running: usize) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        telemetry().jobs_queued.set(count(self.state().queue.len()));
        telemetry().jobs_running.set(count(running));
        telemetry().job_slots.set(count(self.workplace.slots.max(1)));
    }

    async fn cancel_overdue(&self) {
        loop {
            let now = self.workplace.clock.now();
            let Some(id) = self.state().queue.pop_overdue(now) else { return };
            let error_message = "the job waited longer than scheduling.maxWaitTime allows".to_owned();
            let change = JobChange::Become { state: JobState::Cancelled, error_message, at: now };
            if let Err(error) = self.workplace.store.change_job(&id, change).await {
                tracing::error!(job.id = %id, error = %error, "a job that has waited for too long is not cancelled");
            }
        }
    }

    async fn carry_out(self: Arc<Self>, id: JobId, mut control: watch::Receiver<Control>) {
        let (cancel, cancelled) = watch::channel(false);
        self.state().running.insert(id.clone(), cancel.clone());
        // A cancellation may have come between the queue and here.
        if self.workplace.store.job(&id).await.is_ok_and(|job| job.state == JobState::Cancelling) {
            cancel.send_replace(true);
        }
        loop {
            let knows_of_cancellation = *cancelled.borrow();
            match self.carry_on(&id, control.clone(), cancelled.clone()).await {
                Ok(JobOutcome::Ended(job)) => tracing::info!(job.id = %id, job.state = %job.state, "a job has ended"),
                Ok(JobOutcome::Interrupted(_)) => {}
                Err(error) => {
                    tracing::error!(job.id = %id, error = &error as &dyn std::error::Error, "a job is tried again later");
                    let mut cancelled = cancelled.clone();
                    tokio::select! {
                        // A step was refused because the job was cancelled meanwhile: the next attempt begins with that.
                        () = until_true(&mut cancelled), if !knows_of_cancellation => continue,
                        () = until_at_least(&mut control, Control::Interrupt) => {}
                        () = tokio::time::sleep(RETRY_AFTER) => continue,
                    }
                }
            }
            break;
        }
        self.state().running.remove(&id);
    }

    async fn carry_on(
        &self,
        id: &JobId,
        control: watch::Receiver<Control>,
        cancelled: watch::Receiver<bool>,
    ) -> Result<JobOutcome, RunError> {
        let place = &self.workplace;
        let directory = (place.directory)(id);
        let failed = |operation| {
            let path = directory.clone();
            move |source| RunError::Files { operation, path, source }
        };
        std::fs::create_dir_all(&directory).map_err(failed("creating"))?;
        let secret = job_secret(&directory).map_err(failed("keeping a secret in"))?;
        // What happens to the job is in the store; nobody listens.
        let (events, _) = mpsc::unbounded_channel();
        let runner = JobRunner {
            store: Arc::clone(&place.store),
            executor: Arc::clone(&place.executor),
            policy: Arc::clone(&place.policy),
            environments: Arc::clone(&place.environments),
            live: Arc::clone(&place.live),
            clock: Arc::clone(&place.clock),
            events,
            directory: directory.clone(),
            endpoint: place.endpoint.clone(),
            secret,
            parallel: None,
            cancelled,
        };
        runner.run(id, control).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
