//! Carries a job out: compares what is wanted (so many trials, so many at once) with what is there, and closes the
//! difference, until nothing is left to do. Begun anew on a half-done job it goes on, and on a finished one it does
//! nothing: everything it must know is in the store and the executor.

mod failure_rule;
mod program;
mod single_run;
mod trial_run;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::failure_rule::FailureRule;
use self::trial_run::{TrialEnd, TrialRun};
use super::JobEvent;
use super::early_stopping::EarlyStopping;
use super::live_trials::LiveTrials;
use super::plan::{JobPlan, PlanError};
use crate::clock::Clock;
use crate::search_policy::{Proposal, SearchPolicy, SearchPolicyError, error_text};
use tunesmith_domain::{Job, JobChange, JobId, JobState, NewTrial, Study, StudyChange, StudyState, Trial, TrialStart};
use tunesmith_executor::{Executor, ExecutorError};
use tunesmith_packages::Environments;
use tunesmith_store::{Store, StoreError};

/// How many trials are read at once.
const PAGE: usize = 1000;
/// Who owns the trials of a job.
const CLIENT_ID: &str = "tunesmith-job";

/// What the user wants of a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Go on to the end.
    Run,
    /// Start nothing more, end what runs gently, and leave the job so that it can be taken up again.
    Interrupt,
    /// The same, by force and at once.
    Kill,
}

/// How a call of [`JobRunner::run`] left its job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOutcome {
    /// The job has ended, well or badly: see its state.
    Ended(Job),
    /// The job was interrupted and can be taken up again.
    Interrupted(Job),
}

/// Why a job could not be carried further. It can be taken up again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The executor cannot be asked.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The stored plan is not understood.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A trial's files could not be read or its folder not be made.
    #[error("{operation} {path} failed")]
    Files {
        /// Such as `creating`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A part of this program stopped unexpectedly.
    #[error("carrying out a trial stopped unexpectedly")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// Why a job was cancelled that somebody asked to be.
pub const CANCELLED_BY_USER: &str = "cancelled by a user";

/// What a runner works with.
pub struct JobRunner {
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
    /// Where what happens is told.
    pub events: mpsc::UnboundedSender<JobEvent>,
    /// Folder of this job's files.
    pub directory: PathBuf,
    /// Base address for reports over HTTP.
    pub endpoint: String,
    /// Key from which the trials' tokens are derived.
    pub secret: [u8; 32],
    /// Trials at once, if not as many as the plan says.
    pub parallel: Option<u64>,
    /// Becomes true when a user cancels the job.
    pub cancelled: watch::Receiver<bool>,
}

/// Everything that the parts of one run share.
struct Context {
    runner: JobRunner,
    job: Job,
    plan: JobPlan,
    python: Option<PathBuf>,
    control: watch::Receiver<Control>,
}

/// A tuning job while it is carried out.
struct Tuning {
    context: Arc<Context>,
    study: Study,
    stopping: Option<Arc<EarlyStopping>>,
    failures: FailureRule,
    running: JoinSet<Result<TrialEnd, RunError>>,
    /// Set to stop every trial of a job that has failed or was cancelled; the text says why.
    abandon: watch::Sender<Option<String>>,
    exhausted: bool,
}

impl JobRunner {
    /// Carries `id` to its end, or as far as `control` allows.
    ///
    /// # Errors
    /// [`RunError`] if the store or the executor fails; the job can then be taken up again, and nothing that was
    /// acknowledged is lost.
    pub async fn run(self, id: &JobId, mut control: watch::Receiver<Control>) -> Result<JobOutcome, RunError> {
        let job = self.store.job(id).await?;
        if job.state.is_final() {
            return Ok(JobOutcome::Ended(job));
        }
        let plan = JobPlan::of(&job)?;
        let job =
            if job.state == JobState::Queued { self.become_state(id, JobState::Preparing, "").await? } else { job };
        let mut cancelled = self.cancelled.clone();
        let prepared = tokio::select! {
            prepared = program::prepare(&self.environments, &plan) => prepared,
            () = until_at_least(&mut control, Control::Interrupt) => {
                return Ok(JobOutcome::Interrupted(self.become_state(id, JobState::Queued, "").await?));
            }
            // Programs that a former process has left are stopped below.
            () = until_true(&mut cancelled), if job.start_time.is_none() => {
                let job = self.become_state(id, JobState::Cancelled, CANCELLED_BY_USER).await?;
                return Ok(JobOutcome::Ended(job));
            }
        };
        let python = match prepared {
            Ok(prepared) => {
                if let Some(prepared) = &prepared {
                    self.tell(JobEvent::Prepared { log: prepared.log.clone() });
                }
                prepared.map(|prepared| prepared.python)
            }
            Err(error) => {
                let job = self.become_state(&job.id, JobState::Failed, &error_text(&error)).await?;
                return Ok(JobOutcome::Ended(job));
            }
        };
        let job =
            if job.state == JobState::Cancelling { job } else { self.become_state(id, JobState::Running, "").await? };
        let study = match &job.study {
            Some(study) => Some(self.store.study(study).await?),
            None => None,
        };
        let context = Arc::new(Context { runner: self, job, plan, python, control });
        match study {
            Some(study) => Tuning::new(context, study).run().await,
            None => single_run::run(&context).await,
        }
    }

    async fn become_state(&self, id: &JobId, state: JobState, error_message: &str) -> Result<Job, StoreError> {
        let change = JobChange::Become { state, error_message: error_message.to_owned(), at: self.clock.now() };
        let job = self.store.change_job(id, change).await?;
        self.tell(JobEvent::StateChanged { state, error_message: job.error_message.clone() });
        Ok(job)
    }

    fn tell(&self, event: JobEvent) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }
}

impl Context {
    fn tell(&self, event: JobEvent) {
        self.runner.tell(event);
    }

    /// The instant at which the job's time is over.
    fn deadline(&self) -> Option<Timestamp> {
        let limit = SignedDuration::try_from(self.plan.max_running_time?).ok()?;
        self.job.start_time?.checked_add(limit).ok()
    }

    /// Waits until the job is to be cancelled, and says why; for ever, if that does not happen.
    async fn until_cancelled(&self) -> String {
        let time_over = async {
            match self.deadline() {
                Some(deadline) => {
                    let left = deadline.duration_since(self.runner.clock.now());
                    tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
                }
                None => std::future::pending().await,
            }
        };
        let mut cancelled = self.runner.cancelled.clone();
        tokio::select! {
            () = until_true(&mut cancelled) => CANCELLED_BY_USER.to_owned(),
            () = time_over => self.time_over_message(),
        }
    }

    /// Why the job is to be cancelled, if it is.
    fn cancellation(&self) -> Option<String> {
        if *self.runner.cancelled.borrow() {
            return Some(CANCELLED_BY_USER.to_owned());
        }
        let is_over = self.deadline().is_some_and(|deadline| deadline <= self.runner.clock.now());
        is_over.then(|| self.time_over_message())
    }

    fn time_over_message(&self) -> String {
        let limit = self.plan.max_running_time.unwrap_or_default();
        format!("the job ran longer than scheduling.maxRunningTime allows ({} s)", limit.as_secs())
    }
}

impl Tuning {
    fn new(context: Arc<Context>, study: Study) -> Self {
        let stopping = study.stopping_rule.map(|rule| Arc::new(EarlyStopping::new(rule, &study)));
        let failures = FailureRule::new(context.plan.max_failed_trials, context.plan.max_trials);
        let (abandon, _) = watch::channel(None);
        Self { context, study, stopping, failures, running: JoinSet::new(), abandon, exhausted: false }
    }

    async fn run(mut self) -> Result<JobOutcome, RunError> {
        self.take_up().await?;
        if self.context.job.state == JobState::Cancelling {
            let reason = self.context.job.error_message.clone();
            return self.give_up(JobState::Cancelled, reason).await;
        }
        let mut control = self.context.control.clone();
        loop {
            if let Some(reason) = self.failures.verdict() {
                return self.give_up(JobState::Failed, reason).await;
            }
            self.fill().await?;
            if self.running.is_empty() {
                return self.finish().await;
            }
            tokio::select! {
                biased;
                () = until_at_least(&mut control, Control::Interrupt) => return self.interrupt().await,
                ended = self.running.join_next() => self.take_end(ended).await?,
                reason = self.context.until_cancelled() => {
                    return self.give_up(JobState::Cancelled, reason).await;
                }
            }
        }
    }

    /// Learns from the store what a former process did, and watches again what it left running.
    async fn take_up(&mut self) -> Result<(), RunError> {
        let mut after = None;
        let (mut completed, mut unfinished) = (0, 0);
        loop {
            let page = self.context.runner.store.trials(&self.study.id, after, PAGE).await?;
            after = page.last().map(|trial| trial.id);
            let last_page = page.len() < PAGE;
            for trial in page {
                if trial.state.is_final() {
                    completed += 1;
                    self.failures.record(&trial);
                    self.learn_curve(&trial).await?;
                } else {
                    unfinished += 1;
                    self.watch(trial);
                }
            }
            if last_page {
                break;
            }
        }
        if completed + unfinished > 0 {
            self.context.tell(JobEvent::Resumed { completed, unfinished });
        }
        Ok(())
    }

    /// Starts trials until as many run as may, or none is left.
    async fn fill(&mut self) -> Result<(), RunError> {
        let parallel = self.context.runner.parallel.unwrap_or(self.context.plan.max_parallel_trials).max(1);
        while !self.exhausted && (self.running.len() as u64) < parallel {
            match self.next_trial().await? {
                Some(trial) => self.watch(trial),
                None => self.exhausted = true,
            }
        }
        Ok(())
    }

    /// Creates the next trial, durably; none if there have been enough or the space is used up.
    async fn next_trial(&mut self) -> Result<Option<Trial>, RunError> {
        let runner = &self.context.runner;
        loop {
            let proposal = match runner.policy.propose(&self.study.id).await {
                Ok(proposal) => proposal,
                Err(SearchPolicyError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    let change = StudyChange::Deactivate { reason: error_text(&error) };
                    self.study = runner.store.change_study(&self.study.id, change).await?;
                    return Ok(None);
                }
            };
            let (id, parameters, origin) = match proposal {
                Proposal::Trial { id, .. } if id.0 > self.context.plan.max_trials => {
                    return Ok(None);
                }
                Proposal::Trial { id, parameters, origin } => (id, parameters, origin),
                Proposal::Exhausted => {
                    let change = StudyChange::Complete { reason: "search space exhausted".to_owned() };
                    self.study = runner.store.change_study(&self.study.id, change).await?;
                    return Ok(None);
                }
            };
            let trial = NewTrial {
                id,
                parameters,
                origin: Some(origin),
                fallback_reason: None,
                client_id: CLIENT_ID.to_owned(),
                start: TrialStart::Given,
                create_time: runner.clock.now(),
                request_key: None,
            };
            match runner.store.create_trial(&self.study.id, trial).await {
                Ok(trial) => return Ok(Some(trial)),
                Err(StoreError::TrialIdTaken { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn watch(&mut self, trial: Trial) {
        let run = TrialRun {
            context: Arc::clone(&self.context),
            study: self.study.clone(),
            stopping: self.stopping.clone(),
            abandon: self.abandon.subscribe(),
        };
        self.running.spawn(run.run(trial));
    }

    async fn take_end(
        &mut self,
        ended: Option<Result<Result<TrialEnd, RunError>, tokio::task::JoinError>>,
    ) -> Result<(), RunError> {
        let Some(ended) = ended else { return Ok(()) };
        if let TrialEnd::Completed { trial, seen_tags } = ended?? {
            self.failures.record(&trial);
            self.failures.record_tags(&trial, &self.context.plan.metric_tag, &seen_tags);
            self.learn_curve(&trial).await?;
            self.context.tell(JobEvent::TrialEnded { trial });
        }
        Ok(())
    }

    async fn learn_curve(&self, trial: &Trial) -> Result<(), RunError> {
        if let Some(stopping) = &self.stopping {
            stopping.learn(&*self.context.runner.store, trial).await?;
        }
        Ok(())
    }

    /// Everything that was asked for has been tried.
    async fn finish(mut self) -> Result<JobOutcome, RunError> {
        let runner = &self.context.runner;
        self.study = runner.store.study(&self.study.id).await?;
        if self.study.state == StudyState::Inactive {
            let message = self.study.state_reason.clone();
            return Ok(JobOutcome::Ended(runner.become_state(&self.context.job.id, JobState::Failed, &message).await?));
        }
        let reason = format!("{} trials, as many as maxTrials asks for", self.context.plan.max_trials);
        runner.store.change_study(&self.study.id, StudyChange::Complete { reason }).await?;
        let (state, message) = match self.failures.nothing_succeeded() {
            Some(message) => (JobState::Failed, message),
            None => (JobState::Succeeded, String::new()),
        };
        Ok(JobOutcome::Ended(runner.become_state(&self.context.job.id, state, &message).await?))
    }

    /// Stops every running trial for good, and ends the job.
    async fn give_up(mut self, state: JobState, reason: String) -> Result<JobOutcome, RunError> {
        let context = Arc::clone(&self.context);
        if state == JobState::Cancelled {
            context.runner.become_state(&context.job.id, JobState::Cancelling, &reason).await?;
        }
        // The receivers are the running trials; there may be none.
        let _ = self.abandon.send(Some(reason.clone()));
        while let Some(ended) = self.running.join_next().await {
            self.take_end(Some(ended)).await?;
        }
        Ok(JobOutcome::Ended(context.runner.become_state(&context.job.id, state, &reason).await?))
    }

    /// Waits for the running trials to stop, which see the same control, and leaves the job to be taken up again.
    async fn interrupt(mut self) -> Result<JobOutcome, RunError> {
        while let Some(ended) = self.running.join_next().await {
            self.take_end(Some(ended)).await?;
        }
        let context = &self.context;
        Ok(JobOutcome::Interrupted(context.runner.become_state(&context.job.id, JobState::Queued, "").await?))
    }
}

/// Waits until `control` is at least `level`; for ever, if nobody can raise it any more.
pub(super) async fn until_at_least(control: &mut watch::Receiver<Control>, level: Control) {
    if control.wait_for(|now| *now >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until `flag` is true; for ever, if nobody can set it any more.
pub(super) async fn until_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|set| *set).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Makes `path` and the folders above it.
async fn create_dir(path: &Path) -> Result<(), RunError> {
    tokio::fs::create_dir_all(path).await.map_err(|source| RunError::Files {
        operation: "creating",
        path: path.to_owned(),
        source,
    })
}

/// Names the folder of one attempt.
fn attempt_directory(job_directory: &Path, trial: &Trial) -> PathBuf {
    job_directory.join("trials").join(trial.id.to_string()).join(format!("attempt-{}", trial.attempt))
}
