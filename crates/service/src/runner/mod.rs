//! Runs a job until nothing is left to do.
//!
//! The runner compares the number of trials that the plan asks for with the trials in the store, and starts the missing
//! ones. It keeps no state of its own: the store and the executor hold everything that it needs, so that a run of an
//! unfinished job continues it, and a run of a finished job returns at once.

mod attempt;
mod classification;
mod counts;
mod error_quote;
mod failure_rule;
mod files;
mod giving_up;
mod grants;
mod outage;
mod program;
mod running_time;
mod shared_outputs;
mod single_run;
#[cfg(test)]
mod tests;
mod trial_run;
mod trial_stop;
mod trial_wait;
mod tuning;
mod waiting;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use self::program::Prepared;
use self::running_time::{RunningTime, time_of_change};
use self::tuning::Tuning;
use super::JobEvent;
use super::agent_reports::STAGED_PACKAGES;
use super::live_trials::LiveTrials;
use super::secret::{job_secret, shared_secret};
use crate::allowed_folders::{AllowedFolders, JobFolder, NotAllowed, PackageReader};
use crate::clock::Clock;
use crate::packages::{Packages, PackagesError};
use crate::resource_pool::ResourcePool;
use crate::search_policy::{SearchPolicy, error_text};
use tunesmith_domain::{Job, JobChange, JobId, JobPlan, JobState, PlanError, Trial, TrialId};
use tunesmith_executor::logs::LogName;
use tunesmith_executor::{
    AgentPackages, ENVIRONMENT_PYTHON, Executor, ExecutorError, ExecutorJobState, ExitStatus, ProgramEnd,
};
use tunesmith_objects::Buckets;
use tunesmith_packages::{Environments, PackageError, ProgramUser, Step};
use tunesmith_store::{Documents, JobClaims, Store, StoreError};

pub(super) use self::counts::{LiveCounts, TrialCounts};
pub(super) use self::giving_up::{Latest, end_job, end_programs, stop_superseded};
pub(super) use self::grants::{claim, replica_resources, submitted_resources};

/// The reason recorded for a job that a user cancelled.
pub(super) const CANCELLED_BY_USER: &str = "cancelled by a user";

/// Maximum number of findings that a run emits. A guess.
const MAX_NOTED: usize = 1000;

/// How far a running job may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Run to the end.
    Run,
    /// Start no further program, wait for the running ones, and leave the job resumable.
    Drain,
    /// Start no further program, and leave the running ones to the next process, which adopts them.
    Detach,
    /// Start no further program, stop the running ones gracefully, and leave the job resumable.
    Interrupt,
    /// As [`Control::Interrupt`], but kill the running programs.
    Kill,
}

/// The state in which a run left its job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOutcome {
    /// The job is in a final state.
    Ended(Job),
    /// The job was interrupted and can be resumed.
    Interrupted(Job),
}

/// Why a run stopped before the end of its job. The job can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The executor failed.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The stored plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A folder of the job could not be created, or a file not be written.
    #[error("cannot {operation} {path}")]
    Files {
        /// Such as `create`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A task of this program panicked or was aborted.
    #[error("the task that ran a trial ended unexpectedly; the job can be resumed")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// Returns the user of the programs of a project; `None` for that of this process.
pub type ProgramUserOf = Box<dyn Fn(&str) -> Option<ProgramUser> + Send + Sync>;

/// The services that all jobs of one process share.
pub struct JobServices {
    /// Jobs, studies and trials.
    pub store: Arc<dyn Store>,
    /// Decides which server runs a job.
    pub claims: Arc<dyn JobClaims>,
    /// Documents that servers share; `None` if there is one server.
    pub documents: Option<Arc<dyn Documents>>,
    /// Runs the programs.
    pub executor: Arc<dyn Executor>,
    /// The resources that programs share, and the limits on running trials.
    pub pool: Arc<ResourcePool>,
    /// Suggests the parameters of trials.
    pub policy: Arc<SearchPolicy>,
    /// The packages that clients have uploaded.
    pub packages: Packages,
    /// Installs Python packages.
    pub environments: Arc<Environments>,
    /// The running trials, to which reports over HTTP are assigned.
    pub live: Arc<LiveTrials>,
    /// The source of all timestamps.
    pub clock: Arc<dyn Clock>,
    /// The users of programs. For a project with a user, the executor creates the folders of programs, and installers
    /// run as that user.
    pub program_user: ProgramUserOf,
    /// The object stores in which the folders of programs may be.
    pub buckets: Buckets,
    /// The folders and buckets that jobs may name.
    pub allowed_folders: Arc<AllowedFolders>,
    /// Returns the folder of a job's files, which need not exist.
    pub directory: Box<dyn Fn(&JobId) -> PathBuf + Send + Sync>,
    /// The pauses before a job whose run failed is run again. After the last one the job fails.
    pub retry_pauses: Vec<Duration>,
}

impl JobServices {
    /// These services with another store.
    pub(super) fn with_store(self: &Arc<Self>, store: Arc<dyn Store>) -> Arc<Self> {
        let (users, directories) = (Arc::clone(self), Arc::clone(self));
        Arc::new(Self {
            buckets: self.buckets.clone(),
            allowed_folders: Arc::clone(&self.allowed_folders),
            pool: Arc::clone(&self.pool),
            store,
            claims: Arc::clone(&self.claims),
            documents: self.documents.clone(),
            executor: Arc::clone(&self.executor),
            policy: Arc::clone(&self.policy),
            packages: self.packages.clone(),
            environments: Arc::clone(&self.environments),
            live: Arc::clone(&self.live),
            clock: Arc::clone(&self.clock),
            program_user: Box::new(move |project| (users.program_user)(project)),
            directory: Box::new(move |job| (directories.directory)(job)),
            retry_pauses: self.retry_pauses.clone(),
        })
    }
}

/// The settings of one run of a job.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Base address for reports over HTTP.
    pub endpoint: String,
    /// Maximum number of trials that run at once; `None` takes the number in the job's plan.
    pub parallel: Option<u64>,
    /// Receives the events of the job.
    pub events: Option<mpsc::UnboundedSender<JobEvent>>,
}

/// The channels that end a run early.
#[derive(Debug, Clone)]
pub(super) struct RunControl {
    /// Interrupts the run.
    pub(super) level: watch::Receiver<Control>,
    /// Cancels the job when it becomes true.
    pub(super) cancelled: watch::Receiver<bool>,
    /// The numbers of trials.
    pub(super) live: LiveCounts,
    /// Whether another server ran the job before: started attempts that are not known here are superseded.
    pub(super) is_taken_over: bool,
}

/// One run of a job.
struct Runner {
    services: Arc<JobServices>,
    settings: RunSettings,
    control: RunControl,
    id: JobId,
    /// Folder of the job's files.
    directory: PathBuf,
    /// Key from which the tokens of the trials are derived.
    secret: [u8; 32],
}

/// A run whose program is ready to start.
struct Context {
    runner: Runner,
    job: Job,
    plan: JobPlan,
    /// Interpreter of the environment that the packages were installed into.
    python: Option<PathBuf>,
    /// The packages that agents install, where programs do not see that environment.
    packages: Option<AgentPackages>,
    /// The limit of `maxRunningTime`; `None` without one.
    running_time: Option<RunningTime>,
    /// The findings that were emitted.
    noted: Mutex<HashSet<String>>,
}

impl Context {
    /// Adds a finding about `trial` to the notices of the job, and emits it; once for each text.
    async fn note(&self, trial: Option<TrialId>, notice: &str) -> Result<(), StoreError> {
        {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.len() >= MAX_NOTED || !noted.insert(notice.to_owned()) {
                return Ok(());
            }
        }
        tracing::warn!(job.id = %self.job.id, trial.id = trial.map(|trial| trial.0), "{notice}");
        let message = trial.map_or_else(|| notice.to_owned(), |trial| format!("trial {trial}: {notice}"));
        self.emit(JobEvent::Warning { message });
        let change = JobChange::Note { notice: notice.to_owned() };
        self.services().store.change_job(&self.job.id, change).await.map(drop)
    }
}

/// Runs the job `id` to its end, or until `control` ends the run.
///
/// # Errors
/// [`RunError`] if the store, the executor or the file system fails. Acknowledged results are kept, and the job can be
/// resumed.
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
        let mut plan = job.plan()?.clone();
        if let Some(reason) =
            self.services.pool.impossible(plan.machines.executor.as_deref(), &replica_resources(&plan))
        {
            // It was submitted to a server with another configuration.
            let reason = format!("the job can never start: it {reason}");
            return Ok(JobOutcome::Ended(end_job(&self.services, &self.id, JobState::Failed, &reason).await?));
        }
        if let Err(error) = self.services.job_folder(&self.id, &plan) {
            // It was submitted before the operator restricted the folders of jobs.
            let reason = format!("the job folder {error}");
            return Ok(JobOutcome::Ended(end_job(&self.services, &self.id, JobState::Failed, &reason).await?));
        }
        if let Err(error) = program::fetch_packages(&self.services.packages, self.id.parts().0, &mut plan).await {
            return match error {
                PackagesError::Store(error) => Err(error.into()),
                error => Ok(JobOutcome::Ended(self.set_state(JobState::Failed, &error_text(&error)).await?)),
            };
        }
        let job = if job.state == JobState::Queued { self.set_state(JobState::Preparing, "").await? } else { job };
        let mut control = self.control.level.clone();
        let mut cancelled = self.control.cancelled.clone();
        let observer = |step: Step| {
            self.share_log(&step);
            self.emit(JobEvent::Busy { activity: Some(step.into()) });
        };
        let prepared = tokio::select! {
            prepared = self.prepare(&plan, &observer) => prepared,
            () = until_at_least(&mut control, Control::Drain) => {
                return Ok(JobOutcome::Interrupted(self.set_state(JobState::Queued, "").await?));
            }
            // A job that has started before may have running programs, which are stopped below.
            () = until_true(&mut cancelled), if job.start_time.is_none() => {
                return Ok(JobOutcome::Ended(self.set_state(JobState::Cancelled, CANCELLED_BY_USER).await?));
            }
        };
        self.emit(JobEvent::Busy { activity: None });
        let (python, packages) = match prepared {
            Ok(Prepared::Nothing) => (None, None),
            Ok(Prepared::Here(environment)) => {
                self.emit(JobEvent::Prepared { log: environment.log.clone() });
                (Some(environment.python), None)
            }
            Ok(Prepared::ByAgents(packages)) => (Some(ENVIRONMENT_PYTHON.into()), Some(packages)),
            Err(error) => {
                return Ok(JobOutcome::Ended(self.set_state(JobState::Failed, &error_text(&error)).await?));
            }
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

    /// Installs the packages of `plan`, or puts them where agents get them.
    async fn prepare(&self, plan: &JobPlan, observer: &(dyn Fn(Step) + Send + Sync)) -> Result<Prepared, PackageError> {
        let environments = &self.services.environments;
        let is_here = self.services.executor.capabilities(&crate::trainer::placement(&plan.machines)).shares_files;
        let user = self.program_user();
        let (packages, project) = (&self.services.packages, self.id.parts().0);
        let reader = PackageReader { packages, project, user: user.as_ref(), is_here };
        let wanted = program::wanted_by(plan, &self.services.allowed_folders, reader)?;
        if is_here {
            return program::prepare(environments, plan, wanted, user, observer).await;
        }
        program::stage(environments, plan, wanted, &self.directory.join(STAGED_PACKAGES), observer).await
    }

    /// Makes the output of an installer a log of the job, while it grows.
    fn share_log(&self, step: &Step) {
        let (Step::Installing { log, .. } | Step::Waiting { log }) = step else { return };
        let own = LogName::packages().path(&self.directory);
        // That of a former run of the job.
        let linked = match std::fs::remove_file(&own) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::fs::hard_link(log, &own),
        };
        if let Err(error) = linked {
            // The log is shown for information. That of another process may not exist yet.
            tracing::debug!(log.path = %log.display(), %error, "the output of the installer is no log of the job");
        }
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
            // The receiver may have been dropped.
            let _ = events.send(event);
        }
    }

    /// The user of the programs; `None` for that of this process.
    fn program_user(&self) -> Option<ProgramUser> {
        (self.services.program_user)(self.id.parts().0)
    }

    /// Whether the run starts no further program.
    fn is_interrupted(&self) -> bool {
        *self.control.level.borrow() >= Control::Drain
    }

    /// Whether the running programs are left to the next process.
    fn is_detached(&self) -> bool {
        *self.control.level.borrow() == Control::Detach
    }
}

impl Context {
    fn services(&self) -> &JobServices {
        &self.runner.services
    }

    /// The job folder.
    ///
    /// # Errors
    /// [`NotAllowed`].
    fn job_folder(&self) -> Result<JobFolder, NotAllowed> {
        self.services().job_folder(&self.job.id, &self.plan)
    }

    /// The job folder for an attempt at `trial`. Where no component of its path may be a link, it is created.
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

    /// Waits until the job has to be cancelled, and returns the reason. Never completes otherwise.
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

    /// The reason why the job has to be cancelled now, if there is one.
    fn cancellation(&self) -> Option<String> {
        if *self.runner.control.cancelled.borrow() {
            return Some(CANCELLED_BY_USER.to_owned());
        }
        self.running_time.as_ref().filter(|limit| limit.is_reached()).map(RunningTime::message)
    }
}

/// Waits until `control` is at least `level`. Never completes if the sender is dropped before.
pub(super) async fn until_at_least(control: &mut watch::Receiver<Control>, level: Control) {
    if control.wait_for(|now| *now >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until `flag` is true. Never completes if the sender is dropped before.
pub(super) async fn until_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|set| *set).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Creates `path` and its parents.
async fn create_dir(path: &Path) -> Result<(), RunError> {
    tokio::fs::create_dir_all(path).await.map_err(|source| RunError::Files {
        operation: "create",
        path: path.to_owned(),
        source,
    })
}

/// The state of a program that could not be started.
fn not_started(reason: String) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None })
}

/// Returns the folder of one attempt.
pub fn attempt_directory(job_directory: &Path, trial: &Trial) -> PathBuf {
    job_directory.join("trials").join(trial.id.to_string()).join(format!("attempt-{}", trial.attempt))
}
