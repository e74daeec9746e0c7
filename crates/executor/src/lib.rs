//! What runs the program of a trial.
//!
//! # Contract for implementers
//! - The caller chooses the ID and records it *before* it submits; **submitting an ID again is without effect**,
//!   whether its program still runs, has ended, or was lost.
//! - **A lost place is not a failed program.** [`ExecutorJobState::Lost`] says that the place went away (the node, the
//!   supervisor) without the program having ended by itself; when it is reported, no process of the job is left, and
//!   none will start later.
//! - When an end of any kind is reported, no process of the job is left running.
//! - A program goes on when the process that submitted it dies, and can be found again by its ID.
//! - Being unable to ask is an error, never an answer: no state may be made up.

#[cfg(feature = "testing")]
pub mod contract;
mod form;
pub mod local;
pub mod tf_config;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use tunesmith_domain::Role;
use tunesmith_domain::{JobId, TrialId};

/// Runs programs. See the module documentation for the contract.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Starts the program of `spec`, and returns once it is certain to be found again by its ID.
    ///
    /// # Errors
    /// [`ExecutorError::Rejected`] if it can never be started as described; others may be tried again.
    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError>;

    /// What is known of `id` now.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if nothing can be known.
    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError>;

    /// Waits until `id` is no longer running, and returns its state; at once if it is not running now.
    /// Dropping the future is harmless.
    ///
    /// # Errors
    /// As [`Executor::state`].
    async fn wait(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError>;

    /// Asks every process of the job to end: gently with a grace period and then by force, or by force at once.
    /// Returns when the request is made, not when the job has ended. Without effect on a job that does not run.
    ///
    /// # Errors
    /// [`ExecutorError::Unreachable`] if the request could not be made.
    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError>;
}

/// The name of one run of a program: engine-side names derive from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorJobId {
    /// The job.
    #[serde(with = "form::job_id")]
    pub job: JobId,
    /// The trial; `None` for a job that tunes nothing.
    pub trial: Option<TrialId>,
    /// Which attempt at it, from 1.
    pub attempt: u64,
}

impl fmt::Display for ExecutorJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Also a file name, which may not have a slash; no name has a tilde.
        let job = self.job.as_str().replace('/', "~");
        match self.trial {
            Some(trial) => write!(f, "{job}-trial-{trial}-attempt-{}", self.attempt),
            None => write!(f, "{job}-attempt-{}", self.attempt),
        }
    }
}

/// All that an executor needs in order to run a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorJobSpec {
    /// Its name.
    pub id: ExecutorJobId,
    /// The replicas, in order; the first is the master, whose end is the job's end.
    pub replicas: Vec<Replica>,
    /// The `job` part of `TF_CONFIG`: the training input as the user gave it.
    pub training_input: serde_json::Value,
    /// The master is called `chief` in `TF_CONFIG` (`useChiefInTfConfig`).
    pub master_is_chief: bool,
    /// Environment variables of every replica, added to what this process has.
    pub environment: BTreeMap<String, String>,
    /// Where the programs start.
    pub working_directory: PathBuf,
    /// Absolute path of the folder of this attempt: what the executor writes (logs, exit status) lies in it.
    /// Standard output and error of the master go to `stdout.log` and `stderr.log`, those of other replicas to
    /// `<role>-<index>-stdout.log` and `-stderr.log`.
    pub directory: PathBuf,
    /// How long the program may run; it is stopped when the time is over, whoever is alive to see it.
    pub time_limit: Option<Duration>,
    /// How long a program may take to end after it was asked to.
    pub grace: Duration,
}

/// One process of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// What it does in the job.
    #[serde(with = "form::RoleForm")]
    pub role: Role,
    /// Its number among those of its role, from 0.
    pub index: u32,
    /// What it runs.
    pub program: Program,
}

/// What a replica runs, with all its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Program {
    /// A process of this machine.
    Command {
        /// Program and arguments, at least the program.
        argv: Vec<String>,
    },
    /// A container of docker or podman.
    Container {
        /// The image.
        image: String,
        /// Replaces the image's entry point and default arguments, if not empty.
        command: Vec<String>,
        /// Arguments to the entry point.
        args: Vec<String>,
        /// Host folders that the container sees under the same path.
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

/// What an executor knows of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorJobState {
    /// Never submitted, or forgotten.
    Unknown,
    /// Started, or about to start, and not ended.
    Running,
    /// Its master ended, and nothing of it runs.
    Ended(ExitStatus),
    /// The place it ran in went away before the program had ended; nothing of it runs.
    Lost {
        /// What is known of the loss.
        reason: String,
    },
}

/// How the master of a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    /// How.
    pub end: ProgramEnd,
    /// Why the executor stopped it, if it did.
    pub stopped: Option<StopReason>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    /// By itself, with this exit code; 0 is success.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It could not be started at all.
    NotStarted(String),
}

/// Why a job was stopped by its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// [`Executor::stop`] was called.
    Requested,
    /// Its time limit was over.
    TimeLimit,
}

/// Why an executor does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// It can never be run as described: the trial fails with this reason.
    #[error("{id} cannot be run: {reason}")]
    Rejected {
        /// The job.
        id: ExecutorJobId,
        /// What is wrong with it.
        reason: String,
    },
    /// The executor could not be asked; nothing is known, and nothing was changed. Try again.
    #[error("{id} cannot be reached")]
    Unreachable {
        /// The job.
        id: ExecutorJobId,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}
