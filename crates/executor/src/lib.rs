#![doc = include_str!("../README.md")]

mod event_copies;
mod folders;
mod host;
mod job_logs;
pub mod local;
mod log_space;
pub mod logs;
mod part;
mod placement;
pub mod remote;
pub mod reports;
mod routed;
pub mod tf_config;
mod worker_pods;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use self::reports::{FileReports, ReportSources, Reports};
use tunesmith_domain::{JobId, Measurement};

pub use self::folders::{FolderFailure, create_folders, may_pass};
pub use self::host::host_name;
pub use self::job_logs::JobLogs;
pub use self::part::AttemptPart;
pub use self::placement::Placement;
pub use self::routed::{NamedExecutors, RoutedExecutor};
pub use self::worker_pods::{WorkerEnd, WorkerPod, WorkerPods, WorkerPodsError, WorkerSpec, WorkersState};
pub use tunesmith_domain::{
    Accelerators, AttemptLocation, ExecutorJobId, ExitStatus, LossCause, ProgramEnd, ReplicaNode, Resources, Role,
    StopReason,
};

/// Environment variable with the path of the `hypertune` metric file.
pub const METRIC_FILE_VARIABLE: &str = "CLOUD_ML_HP_METRIC_FILE";

/// Runs programs. The crate documentation contains the contract.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Capabilities for programs of jobs with `placement`.
    fn capabilities(&self, placement: &Placement) -> Capabilities {
        let _ = placement;
        Capabilities::LOCAL
    }

    /// Whether `path` lies on a volume that programs of jobs with `placement` can access, even if this machine cannot.
    fn has_volume(&self, placement: &Placement, path: &Path) -> bool {
        let _ = (placement, path);
        false
    }

    /// Whether programs of jobs with `placement` can be container images.
    async fn runs_containers(&self, placement: &Placement) -> bool {
        let _ = placement;
        true
    }

    /// Starts the program of `spec`. Returns once the job is durably registered under its ID. The engine creates the
    /// folders of the attempt and those for the program's output ([`create_folders`]).
    ///
    /// # Errors
    /// [`ExecutorError::Rejected`] and [`ExecutorError::Refused`] if the job can never start as specified; other errors
    /// may be retried.
    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError>;

    /// Returns the current state of `id`.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the state cannot be determined.
    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError>;

    /// Waits until the state of `id` differs from `known`, and returns it. Returns immediately if the job is not open.
    /// Dropping the future does not affect the job.
    ///
    /// # Errors
    /// Those of [`Executor::state`].
    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError>;

    /// Waits for the end of `id` and returns it: [`ExecutorJobState::Ended`], [`ExecutorJobState::Lost`],
    /// [`ExecutorJobState::NotPlaced`], or [`ExecutorJobState::Unknown`] if there is no such job. Never returns
    /// [`ExecutorJobState::Waiting`] or [`ExecutorJobState::Running`], however long the job waits for its start.
    /// Dropping the future does not affect the job.
    ///
    /// # Errors
    /// Those of [`Executor::state`].
    async fn wait(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        let mut state = ExecutorJobState::Running;
        while state.is_open() {
            state = self.changed(id, &state).await?;
        }
        Ok(state)
    }

    /// Requests the stop of every process of the job, without waiting for its end. A waiting job does not start any
    /// more, and ends with [`StopReason::Requested`]. No effect on an ended or unknown job.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request failed.
    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError>;

    /// Removes the engine's records of the ended job `id`, except its logs, its end and the files of its program. No
    /// effect on a running or unknown job. The default does nothing, for engines without records.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// Stops the job `id` that another server of the same store started, as far as the engine finds it: this server has
    /// taken over and starts the next attempt. The stopped job may use its grace period.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn supersede(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// Removes remaining records of ended attempts, left behind by a failed [`Executor::clean_up`] or
    /// [`Executor::stop`], or by a crashed server. The default does nothing, for engines without records.
    ///
    /// # Errors
    /// If the engine cannot be reached, or something could not be removed; another call resumes.
    async fn sweep(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the replicas of `id` as submitted, with the accelerators granted to them. `None` if the job is unknown,
    /// or the engine allocates resources itself.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the record cannot be read.
    async fn submitted(&self, id: &ExecutorJobId) -> Result<Option<Vec<Replica>>, ExecutorError> {
        let _ = id;
        Ok(None)
    }

    /// Returns the location of `id`, as far as the engine knows it. Nodes may become known only after the programs have
    /// started, and may be forgotten together with the records of an ended job.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the location cannot be determined.
    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        Ok(AttemptLocation::from(id))
    }

    /// Opens the reports of an attempt, excluding the trial's measurements `known`. Does no IO.
    fn reports(&self, attempt: &AttemptReports<'_>, known: &[Measurement]) -> Box<dyn Reports> {
        Box::new(FileReports::new(attempt.sources, attempt.directory, attempt.id.attempt, known))
    }

    /// Forgets all runs of `job`, none of which is running. Their IDs become unknown and may be reused.
    ///
    /// # Errors
    /// If a record cannot be removed; another call resumes.
    async fn forget(&self, job: &JobId) -> io::Result<()>;
}

/// Capabilities of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether programs see the server's files under the same paths: installed packages, working directory, local
    /// job-dirs.
    pub shares_files: bool,
    /// Whether programs use processors of the server's machine.
    pub runs_here: bool,
    /// Whether an image without a command is started by its entry point.
    pub starts_entry_points: bool,
}

impl Capabilities {
    /// Capabilities of the server's machine.
    pub const LOCAL: Self = Self { shares_files: true, runs_here: true, starts_entry_points: true };
    /// Capabilities of machines without shared storage, where agents start the programs.
    pub const ELSEWHERE: Self = Self { shares_files: false, runs_here: false, starts_entry_points: false };
}

/// Attempt whose reports are read.
#[derive(Debug, Clone, Copy)]
pub struct AttemptReports<'a> {
    pub id: &'a ExecutorJobId,
    /// [`ExecutorJobSpec::directory`].
    pub directory: &'a Path,
    /// [`ExecutorJobSpec::reports`].
    pub sources: &'a ReportSources,
}

/// Specification of one program run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorJobSpec {
    pub id: ExecutorJobId,
    /// Replicas in order. The first is the master; its end is the end of the job.
    pub replicas: Vec<Replica>,
    /// `job` part of `TF_CONFIG`: the training input as submitted by the user.
    pub training_input: serde_json::Value,
    /// Whether `TF_CONFIG` names the master `chief` (`useChiefInTfConfig`).
    pub master_is_chief: bool,
    /// Whether replicas are named by worker pools, as on Vertex AI: `CLUSTER_SPEC` for every program, and `TF_CONFIG` with
    /// more than one replica only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_worker_pools: bool,
    /// Environment variables of every replica, in addition to those passed on by the engine.
    pub environment: BTreeMap<String, String>,
    /// Working directory of the programs.
    pub working_directory: PathBuf,
    /// Folders the programs write to, such as their job-dir. An engine that runs programs as another user creates them
    /// as that user; otherwise they exist.
    pub program_folders: Vec<PathBuf>,
    /// Absolute path of the attempt's folder with all files written by the executor (logs, exit status). The master's
    /// output goes to `stdout.log` and `stderr.log`, that of other replicas to `<role>-<index>-stdout.log` and
    /// `-stderr.log`.
    pub directory: PathBuf,
    /// Sources of the program's reports.
    pub reports: ReportSources,
    /// Server that an agent beside the program reports to.
    pub server: ServerAccess,
    /// Time limit of the program; enforced even if the submitting process has died.
    pub time_limit: Option<Duration>,
    /// Grace period between a stop request (SIGTERM) and SIGKILL.
    pub grace: Duration,
    /// First of consecutive ports of the replicas in `TF_CONFIG`; `None` for free ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_port: Option<u16>,
    #[serde(default, skip_serializing_if = "Placement::is_empty")]
    pub placement: Placement,
    /// Python packages that an agent installs before it starts the programs; `None` if none are needed, or they are
    /// installed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<AgentPackages>,
    /// Replica started by this specification; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<AttemptPart>,
}

/// First word of commands that run the interpreter of the environment with [`AgentPackages`].
pub const ENVIRONMENT_PYTHON: &str = "{environment}/bin/python";

/// Python packages that an agent obtains from its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPackages {
    /// Source archives and wheels, installed together.
    pub archives: Vec<AgentArchive>,
    /// Further requirements, in the syntax of pip's command line.
    pub requirements: Vec<String>,
    /// Base interpreter of the environment; `None` for `python3`.
    pub python: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentArchive {
    /// SHA-256 as 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// File name accepted by installers.
    pub file_name: String,
}

/// Server of an attempt, with the attempt's token.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerAccess {
    /// Base address, such as `http://127.0.0.1:8080`.
    pub address: String,
    pub token: String,
}

impl fmt::Debug for ServerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAccess").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ExecutorJobSpec {
    /// Moves the files of the attempt to `directory`.
    pub fn move_to(&mut self, directory: PathBuf) {
        let earlier = std::mem::replace(&mut self.directory, directory);
        if let Some(file) = self.environment.get_mut(METRIC_FILE_VARIABLE) {
            *file = reports::metric_file(&self.directory).display().to_string();
        }
        for replica in &mut self.replicas {
            if let Program::Container { mounts, .. } = &mut replica.program {
                for mount in mounts.iter_mut().filter(|mount| **mount == earlier) {
                    mount.clone_from(&self.directory);
                }
            }
        }
    }
}

/// One process of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    pub role: Role,
    /// Index within the role, from 0.
    pub index: u32,
    pub program: Program,
    /// Environment variables of this replica, in addition to those of the specification.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Resource request. Engines with a scheduler pass it on.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Accelerators granted to this replica, in the form of `CUDA_VISIBLE_DEVICES`. `None` if the engine allocates
    /// them, or does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
    /// Further host folders of a container, by their path in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, PathBuf>,
}

impl Replica {
    /// Replica without resource requests.
    pub fn new(role: Role, index: u32, program: Program) -> Self {
        let (variables, volumes, resources) = (BTreeMap::new(), BTreeMap::new(), Resources::default());
        Self { role, index, program, variables, resources, devices: None, volumes }
    }
}

/// Program with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Program {
    /// Process on this machine.
    Command {
        /// Program and arguments; at least the program.
        argv: Vec<String>,
    },
    /// Container run by docker or podman.
    Container {
        image: String,
        /// Replaces the image's entry point and default arguments, unless empty.
        command: Vec<String>,
        /// Arguments to the entry point.
        args: Vec<String>,
        /// Host folders mounted in the container under the same path.
        mounts: Vec<PathBuf>,
    },
}

/// Urgency of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// SIGTERM, then SIGKILL after the grace period.
    Graceful,
    /// SIGKILL.
    Immediate,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorJobState {
    /// Never submitted, or no longer recorded.
    Unknown,
    /// Accepted by the engine but not started.
    Waiting {
        /// Engine's own reason, such as `Resources (no node has 2 free GPUs)`.
        reason: String,
    },
    /// Starting or running.
    Running,
    /// The master has ended, and no process of the job is running.
    Ended(ExitStatus),
    /// Only some replicas could be placed in time, and their slots were released. No program was started. Another
    /// attempt may be submitted; it pauses before requesting slots.
    NotPlaced {
        /// Slots that had been obtained.
        reason: String,
    },
    /// The node or supervisor of the job was lost before the program ended; no process of the job is running.
    Lost {
        /// Failure or preemption.
        cause: LossCause,
        reason: String,
    },
}

impl ExecutorJobState {
    /// Whether the job is waiting or running.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Running)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The job can never run as specified; the trial fails with this reason.
    #[error("{id} cannot be run: {reason}")]
    Rejected { id: ExecutorJobId, reason: String },
    /// The executor refuses every program like this one, for example due to cluster policy. The job fails; the trial's
    /// parameters are not the cause.
    #[error("{id} is refused: {reason}")]
    Refused { id: ExecutorJobId, reason: String },
    /// The executor is unreachable; the job's state is unknown and unchanged. Retry.
    #[error("{id} cannot be reached")]
    Unreachable {
        id: ExecutorJobId,
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
