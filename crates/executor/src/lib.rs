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
pub use tunesmith_domain::{
    Accelerators, AttemptLocation, ExecutorJobId, ExitStatus, LossCause, ProgramEnd, ReplicaNode, Resources, Role,
    StopReason,
};

/// The environment variable with the path of the file that `hypertune` writes.
pub const METRIC_FILE_VARIABLE: &str = "CLOUD_ML_HP_METRIC_FILE";

/// Runs programs. The crate documentation contains the contract.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// What the engine offers to the programs of jobs with `placement`.
    fn capabilities(&self, placement: &Placement) -> Capabilities {
        let _ = placement;
        Capabilities::LOCAL
    }

    /// Whether `path` is on a volume that the programs of jobs with `placement` find where they run, and this machine need not have.
    fn has_volume(&self, placement: &Placement, path: &Path) -> bool {
        let _ = (placement, path);
        false
    }

    /// Starts the program of `spec`. Returns when the job is registered durably under its ID. The engine creates the folders
    /// of the attempt and those that the programs write to ([`create_folders`]).
    ///
    /// # Errors
    /// [`ExecutorError::Rejected`] and [`ExecutorError::Refused`] if the job can never be started as described; other errors may be
    /// retried.
    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError>;

    /// Returns the current state of `id`.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the state cannot be determined.
    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError>;

    /// Waits until the state of `id` is another one than `known`, and returns it. Returns at once if the job is not open.
    /// Dropping the future has no effect on the job.
    ///
    /// # Errors
    /// As [`Executor::state`].
    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError>;

    /// Waits for the end of `id` and returns it: [`ExecutorJobState::Ended`], [`ExecutorJobState::Lost`],
    /// [`ExecutorJobState::NotPlaced`], or
    /// [`ExecutorJobState::Unknown`] if there is no such job. It returns neither [`ExecutorJobState::Waiting`] nor
    /// [`ExecutorJobState::Running`], however long the job waits for its start. Dropping the future has no effect on the
    /// job.
    ///
    /// # Errors
    /// As [`Executor::state`].
    async fn wait(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        let mut state = ExecutorJobState::Running;
        while state.is_open() {
            state = self.changed(id, &state).await?;
        }
        Ok(state)
    }

    /// Stops every process of the job, in the way of `how`. Returns when the request is made, before the job has ended.
    /// A job that waits does not start any more, and has ended with [`StopReason::Requested`]. Has no effect on a job that
    /// has ended or is unknown.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request could not be made.
    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError>;

    /// Removes what the engine keeps of the ended job `id`, except its logs, its end and the files of its program. Has no
    /// effect on a job that runs or is unknown. An engine that keeps nothing does nothing.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// Ends what another server of the same store has started as `id`, as far as the engine finds it: this server has taken the job over,
    /// and starts the next attempt. What ends may run until its grace period is over.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if something could not be removed.
    async fn supersede(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let _ = id;
        Ok(())
    }

    /// Removes what the engine still keeps of attempts that are over: [`Executor::clean_up`] or [`Executor::stop`] may have failed, or
    /// a server may have died before. An engine that keeps nothing does nothing.
    ///
    /// # Errors
    /// If the engine cannot be reached, or something could not be removed; calling again continues.
    async fn sweep(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the replicas of `id` as they were submitted, with the accelerators that were granted to them. `None` if the
    /// job is unknown, or the engine hands out resources itself.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the record cannot be read.
    async fn submitted(&self, id: &ExecutorJobId) -> Result<Option<Vec<Replica>>, ExecutorError> {
        let _ = id;
        Ok(None)
    }

    /// Returns where `id` runs or ran, as far as the engine knows. The nodes may be known only after the programs have started, and
    /// may be forgotten with the records of an ended job.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if that cannot be determined.
    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        Ok(AttemptLocation::from(id))
    }

    /// Opens the reports of an attempt without the trial's measurements `known`. Does no IO.
    fn reports(&self, attempt: &AttemptReports<'_>, known: &[Measurement]) -> Box<dyn Reports> {
        Box::new(FileReports::new(attempt.sources, attempt.directory, attempt.id.attempt, known))
    }

    /// Forgets all runs of `job`, none of which is running. Their IDs are unknown from then on, and may be used again.
    ///
    /// # Errors
    /// If a record cannot be removed; calling again continues.
    async fn forget(&self, job: &JobId) -> io::Result<()>;
}

/// What an engine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether programs see the files of the server under the same paths: installed packages, the working directory, local
    /// job-dirs.
    pub shares_files: bool,
    /// Whether programs take processors of the server's machine.
    pub runs_here: bool,
    /// Whether an image that is given without a command is started by its entry point.
    pub starts_entry_points: bool,
}

impl Capabilities {
    /// Those of the machine of the server.
    pub const LOCAL: Self = Self { shares_files: true, runs_here: true, starts_entry_points: true };
    /// Those of machines that share nothing with it, on which agents start the programs.
    pub const ELSEWHERE: Self = Self { shares_files: false, runs_here: false, starts_entry_points: false };
}

/// An attempt whose reports are read.
#[derive(Debug, Clone, Copy)]
pub struct AttemptReports<'a> {
    /// The run.
    pub id: &'a ExecutorJobId,
    /// [`ExecutorJobSpec::directory`].
    pub directory: &'a Path,
    /// [`ExecutorJobSpec::reports`].
    pub sources: &'a ReportSources,
}

/// The specification of one run of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorJobSpec {
    /// Name of the run.
    pub id: ExecutorJobId,
    /// The replicas, in order. The first is the master; its end is the end of the job.
    pub replicas: Vec<Replica>,
    /// The `job` part of `TF_CONFIG`: the training input as the user gave it.
    pub training_input: serde_json::Value,
    /// Whether the master is named `chief` in `TF_CONFIG` (`useChiefInTfConfig`).
    pub master_is_chief: bool,
    /// Environment variables of every replica, in addition to those that the engine passes on.
    pub environment: BTreeMap<String, String>,
    /// Working directory of the programs.
    pub working_directory: PathBuf,
    /// Folders that the programs write to, such as their job-dir. An engine that runs programs as another user creates
    /// them as that user; otherwise they exist.
    pub program_folders: Vec<PathBuf>,
    /// Absolute path of the folder of this attempt. It contains all files that the executor writes (logs, exit
    /// status). Standard output and error of the master go to `stdout.log` and `stderr.log`, those of other replicas
    /// to `<role>-<index>-stdout.log` and `-stderr.log`.
    pub directory: PathBuf,
    /// The reports of the program that are read.
    pub reports: ReportSources,
    /// The server that an agent beside the program reports to.
    pub server: ServerAccess,
    /// Maximum run time of the program. The executor enforces it also if the submitting process has died.
    pub time_limit: Option<Duration>,
    /// Time between a stop request (SIGTERM) and SIGKILL.
    pub grace: Duration,
    /// The first port of the replicas in `TF_CONFIG`, which get consecutive ports; `None` for free ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_port: Option<u16>,
    /// Where the engine runs the job.
    #[serde(default, skip_serializing_if = "Placement::is_empty")]
    pub placement: Placement,
    /// The Python packages that an agent installs before it starts the programs; `None` if the programs need none, or find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<AgentPackages>,
    /// The replica that this specification starts; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<AttemptPart>,
}

/// The first word of a command that runs the interpreter of the environment with [`AgentPackages`].
pub const ENVIRONMENT_PYTHON: &str = "{environment}/bin/python";

/// Python packages that an agent gets from its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPackages {
    /// Source archives and wheels, installed together.
    pub archives: Vec<AgentArchive>,
    /// Further requirements in the syntax of pip's command line.
    pub requirements: Vec<String>,
    /// The interpreter of the environment; `None` for `python3`.
    pub python: Option<PathBuf>,
}

/// A package archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentArchive {
    /// SHA-256 of the bytes as 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The file name that installers accept.
    pub file_name: String,
}

/// The server of an attempt, and the token of the attempt.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerAccess {
    /// Base address, such as `http://127.0.0.1:8080`.
    pub address: String,
    /// The token of the attempt.
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
    /// Role in the job.
    pub role: Role,
    /// Index among the replicas of this role, from 0.
    pub index: u32,
    pub program: Program,
    /// The resources that the replica needs. An engine with a scheduler requests them from it.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// The accelerators that were granted to this replica, as `CUDA_VISIBLE_DEVICES` names them. `None` if the engine
    /// hands them out, or does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
}

impl Replica {
    /// A replica that requests no resources.
    pub fn new(role: Role, index: u32, program: Program) -> Self {
        Self { role, index, program, resources: Resources::default(), devices: None }
    }
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Program {
    /// A process on this machine.
    Command {
        /// Program and arguments; at least the program.
        argv: Vec<String>,
    },
    /// A container run by docker or podman.
    Container {
        image: String,
        /// Replacement of the image's entry point and default arguments; empty: not replaced.
        command: Vec<String>,
        /// Arguments to the entry point.
        args: Vec<String>,
        /// Host folders that are mounted in the container under the same path.
        mounts: Vec<PathBuf>,
    },
}

/// How a job is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// SIGTERM, the grace period, SIGKILL.
    Graceful,
    /// SIGKILL.
    Immediate,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorJobState {
    /// Never submitted, or no longer recorded.
    Unknown,
    /// Accepted by the engine, and not started yet.
    Waiting {
        /// The engine's own reason, such as `Resources (no node has 2 free GPUs)`.
        reason: String,
    },
    /// Started or starting, and not ended.
    Running,
    /// The master has ended and no process of the job is running.
    Ended(ExitStatus),
    /// The job did not get places for all of its replicas in time, and gave back those that it had. No program was started;
    /// another attempt may be submitted, which waits before it asks for places.
    NotPlaced {
        /// The places that it had.
        reason: String,
    },
    /// The place where the job ran or was to run was lost before the program ended; no process of the job is running.
    Lost {
        /// Whether something failed, or the engine gave the place to other work.
        cause: LossCause,
        /// Description of the failure or the preemption.
        reason: String,
    },
}

impl ExecutorJobState {
    /// Whether the job waits or runs, so that its end is to come.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Running)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The job can never run as specified; the trial fails with this reason.
    #[error("{id} cannot be run: {reason}")]
    Rejected { id: ExecutorJobId, reason: String },
    /// The executor refuses every program like this one, such as by the rules of its cluster. The job fails, and the parameters of
    /// the trial are not to blame.
    #[error("{id} is refused: {reason}")]
    Refused { id: ExecutorJobId, reason: String },
    /// The executor is not reachable; the state of the job is not known and was not changed. Retry.
    #[error("{id} cannot be reached")]
    Unreachable {
        id: ExecutorJobId,
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
