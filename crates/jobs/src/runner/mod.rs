//! Runs a job to completion.
//!
//! The runner compares the requested number of trials with those in the store, and starts the missing ones. It is
//! stateless: the store and the executor hold everything, so running an unfinished job continues it and running a
//! finished job returns immediately.

mod attempt;
mod classification;
mod counts;
mod error_quote;
mod failure_rule;
mod files;
mod grants;
mod outage;
mod prediction;
mod program;
mod running_time;
mod shared_outputs;
mod single_run;
mod submit;
mod termination;
#[cfg(test)]
mod tests;
mod trial_run;
mod trial_wait;
mod tuning;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use self::program::Prepared;
use self::running_time::{RunningTime, time_of_change};
use self::tuning::Tuning;
use super::JobEvent;
use super::agent_reports::{DirectoryOf, STAGED_PACKAGES};
use super::batch_predictions::BatchPredictions;
use super::live_trials::LiveTrials;
use super::secret::{job_secret, shared_secret};
use super::tracking::JobTracking;
use crate::allowed_folders::{AllowedFolders, JobFolder, NotAllowed, PackageReader};
use crate::packages::{Packages, PackagesError};
use crate::resource_pool::ResourcePool;
use tunesmith_domain::{Job, JobChange, JobId, JobPlan, JobState, PlanError, Trial, TrialId};
use tunesmith_executor::logs::{self, LogName};
use tunesmith_executor::{
    AgentPackages, ENVIRONMENT_PYTHON, Executor, ExecutorError, ExecutorJobState, ExitStatus, ProgramEnd,
};
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, PackageError, ProgramUser, Step};
use tunesmith_store::{Documents, JobClaims, Store, StoreError};
use tunesmith_studies::clock::Clock;
use tunesmith_studies::search_policy::{SearchPolicy, error_text};

pub(super) use self::counts::{LiveCounts, TrialCounts};
pub(super) use self::grants::{claim, replica_resources, submitted_resources, until};
pub(super) use self::termination::{LatestAttempt, end_job, end_programs, stop_superseded};

pub(super) const CANCELLED_BY_USER: &str = "cancelled by a user";

/// Maximum number of findings emitted per run. A guess.
const MAX_NOTED: usize = 1000;

/// Permitted progress of a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    Run,
    /// Start no new programs, wait for the running ones, and leave the job resumable.
    Drain,
    /// Start no new programs, and leave the running ones for the next process to adopt.
    Detach,
    /// Start no new programs, stop the running ones gracefully, and leave the job resumable.
    Interrupt,
    /// As [`Control::Interrupt`], but kill the running programs.
    Kill,
}

/// State of the job after a run.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOutcome {
    Ended(Job),
    /// Interrupted and resumable.
    Interrupted(Job),
}

/// Why a run stopped before the end of its job. The job can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot {operation} {path}")]
    Files {
        /// Such as `create`.
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the task that ran a trial ended unexpectedly; the job can be resumed")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// Maps a project to the user of its programs; `None` for the user of this process.
pub type ProgramUserOf = Arc<dyn Fn(&str) -> Option<ProgramUser> + Send + Sync>;

/// Services shared by all jobs of a process.
#[derive(Clone)]
pub struct JobServices {
    pub store: Arc<dyn Store>,
    /// Decides which server runs a job.
    pub claims: Arc<dyn JobClaims>,
    /// Documents shared by servers; `None` in single-server mode.
    pub documents: Option<Arc<dyn Documents>>,
    pub executor: Arc<dyn Executor>,
    /// Shared resources, and limits on running trials.
    pub pool: Arc<ResourcePool>,
    pub policy: Arc<SearchPolicy>,
    pub packages: Packages,
    pub environments: Arc<Environments>,
    /// Running trials, for the assignment of HTTP reports.
    pub live: Arc<LiveTrials>,
    /// Source of all timestamps.
    pub clock: Arc<dyn Clock>,
    /// Users of programs. In a project with one, the executor creates the program folders, and installers run as that
    /// user.
    pub program_user: ProgramUserOf,
    /// Object stores for program folders.
    pub buckets: Buckets,
    /// Folders and buckets open to jobs.
    pub allowed_folders: Arc<AllowedFolders>,
    /// Maps a job to its folder, which may not exist yet.
    pub directory: DirectoryOf,
    /// Back-off between failed runs; the job fails after the last pause.
    pub retry_pauses: Vec<Duration>,
    /// Exports jobs while they run.
    pub tracking: Arc<dyn JobTracking>,
    /// Runs batch predictions.
    pub predictions: Arc<dyn BatchPredictions>,
}

#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Base address for HTTP reports.
    pub endpoint: String,
    /// Maximum number of concurrent trials; `None` uses the job's plan.
    pub parallel: Option<u64>,
    /// Receives the events of the job.
    pub events: Option<mpsc::UnboundedSender<JobEvent>>,
}

/// Channels that end a run early.
#[derive(Debug, Clone)]
pub(super) struct RunControl {
    pub(super) level: watch::Receiver<Control>,
    /// Cancels the job once true.
    pub(super) cancelled: watch::Receiver<bool>,
    pub(super) live: LiveCounts,
    /// Whether another server ran the job before; started attempts unknown to this server are then superseded.
    pub(super) is_taken_over: bool,
}

struct Runner {
    services: Arc<JobServices>,
    settings: RunSettings,
    control: RunControl,
    id: JobId,
    /// Folder of the job's files.
    directory: PathBuf,
    /// Key for deriving trial tokens.
    secret: [u8; 32],
}

/// A run that is ready to start its program.
struct Context {
    runner: Runner,
    job: Job,
    plan: JobPlan,
    /// Python interpreter of the environment with the packages.
    python: Option<PathBuf>,
    /// Packages installed by agents, where programs do not see that environment.
    packages: Option<AgentPackages>,
    /// `maxRunningTime` limit, if any.
    running_time: Option<RunningTime>,
    noted: Mutex<HashSet<String>>,
}

impl Context {
    /// Records a finding as a notice of the job and emits it, once per text.
    async fn note(&self, trial: Option<TrialId>, notice: &str) -> Result<(), StoreError> {
        {
            let mut noted = self.noted.lock();
            if noted.len() >= MAX_NOTED || !noted.insert(notice.to_owned()) {
                return Ok(());
            }
        }
        // With a receiver, that one shows it.
        if self.runner.settings.events.is_none() {
            tracing::info!(job.id = %self.job.id, trial.id = trial.map(|trial| trial.0), "{notice}");
        }
        let message = trial.map_or_else(|| notice.to_owned(), |trial| format!("trial {trial}: {notice}"));
        self.emit(JobEvent::Warning { message });
        let change = JobChange::Note { notice: notice.to_owned() };
        self.services().store.change_job(&self.job.id, change).await.map(drop)
    }
}

/// Runs the job to its end, or until `control` ends the run.
///
/// # Errors
/// If the store, the executor or the file system fails. Acknowledged results are kept, and the job can be resumed.
pub(super) async fn run(
    services: Arc<JobServices>,
    id: JobId,
    settings: RunSettings,
    control: RunControl,
) -> Result<JobOutcome, RunError> {
    let directory = (services.directory)(&id);
    create_dir(&directory).await?;
    let secret = match &services.documents {
        Some(documents) => shared_secret(&**documents, &id).await?,
        None => job_secret(&directory).map_err(|source| RunError::Files {
            operation: "write the secret of the job in",
            path: directory.clone(),
            source,
        })?,
    };
    Runner { services, settings, control, id, directory, secret }.run().await
}

impl Runner {
    async fn run(self) -> Result<JobOutcome, RunError> {
        let job = self.services.store.job(&self.id).await?;
        if job.state.is_final() {
            return Ok(JobOutcome::Ended(job));
        }
        if job.prediction.is_some() {
            return prediction::run(&self, job).await;
        }
        let mut plan = job.plan()?.clone();
        let impossible = self.services.pool.impossible(plan.machines.executor.as_deref(), &replica_resources(&plan));
        let refusal = match impossible {
            Some(reason) => Some(format!("the job can never start: it {reason}")),
            None => self.services.job_folder(&self.id, &plan).err().map(|error| format!("the job folder {error}")),
        };
        if let Some(reason) = refusal {
            // Submitted to a server with a different configuration.
            return Ok(JobOutcome::Ended(end_job(&self.services, &self.id, JobState::Failed, &reason).await?));
        }
        if let Err(error) = program::fetch_packages(&self.services.packages, self.id.parts().0, &mut plan).await {
            return match error {
                PackagesError::Store(error) => Err(error.into()),
                error => self.end(JobState::Failed, &error_text(&error)).await,
            };
        }
        let job = if job.state == JobState::Queued { self.set_state(JobState::Preparing, "").await? } else { job };
        let mut control = self.control.level.clone();
        let mut cancelled = self.control.cancelled.clone();
        let observer = |step: Step| {
            self.share_log(&step);
            self.emit(JobEvent::ActivityChanged { activity: Some(step.into()) });
        };
        let prepared = tokio::select! {
            prepared = self.prepare(&plan, &observer) => prepared,
            () = until_at_least(&mut control, Control::Drain) => return self.interrupt().await,
            // A job that started before may have running programs; they are stopped below.
            () = until_true(&mut cancelled), if job.start_time.is_none() => {
                return self.end(JobState::Cancelled, CANCELLED_BY_USER).await;
            }
        };
        self.emit(JobEvent::ActivityChanged { activity: None });
        let (python, packages) = match prepared {
            Ok(Prepared::Nothing) => (None, None),
            Ok(Prepared::Here(environment)) => {
                self.emit(JobEvent::Prepared { log: environment.log.clone() });
                if plan.program.is_built_in() {
                    let change = JobChange::SetPythonVersion { version: environment.python_version };
                    self.services.store.change_job(&self.id, change).await?;
                }
                (Some(environment.python), None)
            }
            Ok(Prepared::ByAgents(packages)) => (Some(ENVIRONMENT_PYTHON.into()), Some(packages)),
            Err(error) => return self.end(JobState::Failed, &error_text(&error)).await,
        };
        let job = if job.state == JobState::Cancelling { job } else { self.set_state(JobState::Running, "").await? };
        let study = match &job.study {
            Some(study) => Some(self.services.store.study(study).await?),
            None => None,
        };
        let running_time = RunningTime::of(&job, &plan, self.services.clock.now(), tokio::time::Instant::now());
        let context =
            Arc::new(Context { runner: self, job, plan, python, packages, running_time, noted: Mutex::default() });
        match study {
            Some(study) => Tuning::new(context, study).run().await,
            None => single_run::run(&context).await,
        }
    }

    /// Installs the packages of `plan`, or stages them for agents.
    async fn prepare(&self, plan: &JobPlan, observer: &(dyn Fn(Step) + Send + Sync)) -> Result<Prepared, PackageError> {
        let environments = &self.services.environments;
        let is_here = self.services.executor.capabilities(&crate::trainer::placement(&plan.machines)).shares_files;
        let user = self.program_user();
        let (packages, project) = (&self.services.packages, self.id.parts().0);
        let reader = PackageReader { packages, project, user: user.as_ref(), is_here };
        let wanted = program::named_packages(plan, &self.services.allowed_folders, reader)?;
        if is_here {
            return program::prepare(environments, plan, wanted, user, observer).await;
        }
        program::stage(environments, plan, wanted, &self.directory.join(STAGED_PACKAGES), observer).await
    }

    /// Exposes an installer's growing output as a log of the job.
    fn share_log(&self, step: &Step) {
        let (Step::Installing { log, .. } | Step::Waiting { log }) = step else { return };
        let own = logs::path(&LogName::packages(), &self.directory);
        // Left by an earlier run of the job.
        let linked = match std::fs::remove_file(&own) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::fs::hard_link(log, &own),
        };
        if let Err(error) = linked {
            // Informational only; another process's log may not exist yet.
            tracing::debug!(log.path = %log.display(), %error, "the output of the installer is no log of the job");
        }
    }

    async fn end(&self, state: JobState, error_message: &str) -> Result<JobOutcome, RunError> {
        Ok(JobOutcome::Ended(self.set_state(state, error_message).await?))
    }

    async fn interrupt(&self) -> Result<JobOutcome, RunError> {
        Ok(JobOutcome::Interrupted(self.set_state(JobState::Queued, "").await?))
    }

    /// Leaves the job `RUNNING`, with its programs, to the next process.
    async fn detach(&self) -> Result<JobOutcome, RunError> {
        Ok(JobOutcome::Interrupted(self.services.store.job(&self.id).await?))
    }

    async fn set_state(&self, state: JobState, error_message: &str) -> Result<Job, StoreError> {
        let at = self.services.clock.now();
        let change = JobChange::Become { state, error_message: error_message.to_owned(), at };
        let job = self.services.store.change_job(&self.id, change).await?;
        self.emit(JobEvent::StateChanged { state, error_message: job.error_message.clone() });
        Ok(job)
    }

    fn emit(&self, event: JobEvent) {
        if let Some(events) = &self.settings.events {
            // The receiver may be gone.
            let _ = events.send(event);
        }
    }

    /// User of the programs; `None` for the user of this process.
    fn program_user(&self) -> Option<ProgramUser> {
        (self.services.program_user)(self.id.parts().0)
    }

    /// Whether no further programs are started.
    fn is_interrupted(&self) -> bool {
        *self.control.level.borrow() >= Control::Drain
    }

    /// Whether running programs are left to the next process.
    fn is_detached(&self) -> bool {
        *self.control.level.borrow() == Control::Detach
    }
}

impl Context {
    fn services(&self) -> &JobServices {
        &self.runner.services
    }

    fn job_folder(&self) -> Result<JobFolder, NotAllowed> {
        self.services().job_folder(&self.job.id, &self.plan)
    }

    /// Job folder for an attempt at `trial`, created if its path must be free of links.
    ///
    /// # Errors
    /// Why the program cannot be started.
    async fn use_job_folder(&self, trial: Option<TrialId>) -> Result<JobFolder, String> {
        let folder = self.job_folder().map_err(|error| format!("its job folder {error}"))?;
        if let JobFolder::Here(here) = &folder
            && here.is_without_links
        {
            let (services, id, used) = (Arc::clone(&self.runner.services), self.job.id.clone(), here.clone());
            let place = here.of(trial);
            let path = place.path();
            let create = move || {
                services.prepare_area(&id, &used)?;
                place.create_folder().map_err(std::io::Error::from)
            };
            let created = tokio::task::spawn_blocking(create).await.map_err(std::io::Error::other).flatten();
            created.map_err(|error| format!("its job folder {} cannot be created: {error}", path.display()))?;
        }
        Ok(folder)
    }

    fn emit(&self, event: JobEvent) {
        self.runner.emit(event);
    }

    /// Waits for a cancellation and returns its reason.
    async fn until_cancelled(&self) -> String {
        let time_over = async {
            match &self.running_time {
                Some(limit) => limit.reached().await,
                None => std::future::pending().await,
            }
        };
        let mut cancelled = self.runner.control.cancelled.clone();
        tokio::select! {
            () = until_true(&mut cancelled) => CANCELLED_BY_USER.to_owned(),
            message = time_over => message,
        }
    }

    fn cancellation(&self) -> Option<String> {
        if *self.runner.control.cancelled.borrow() {
            return Some(CANCELLED_BY_USER.to_owned());
        }
        self.running_time.as_ref().filter(|limit| limit.is_reached()).map(RunningTime::message)
    }
}

/// Waits until `control` reaches `level`; never completes if the sender is dropped first.
pub(super) async fn until_at_least(control: &mut watch::Receiver<Control>, level: Control) {
    if control.wait_for(|now| *now >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until `flag` is true; never completes if the sender is dropped first.
pub(super) async fn until_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|set| *set).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn create_dir(path: &Path) -> Result<(), RunError> {
    tokio::fs::create_dir_all(path).await.map_err(|source| RunError::Files {
        operation: "create",
        path: path.to_owned(),
        source,
    })
}

/// State of a program that could not be started.
fn not_started(reason: String) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None })
}

/// Folder of one attempt.
pub fn attempt_directory(job_directory: &Path, trial: &Trial) -> PathBuf {
    job_directory.join("trials").join(trial.id.to_string()).join(format!("attempt-{}", trial.attempt))
}
