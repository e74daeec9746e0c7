#![doc = include_str!("../README.md")]

mod attempt;
mod client;
mod command;
mod endpoint;
mod oom_kills;
mod outbox;
mod packages;
pub mod process;
mod rendezvous;
mod shipper;
mod spool;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use self::attempt::Attempt;
use tunesmith_executor::ExecutorError;
use tunesmith_executor::local::{PassVariableError, PassedEnvironment};

pub use self::command::AgentArgs;

#[derive(Debug)]
pub struct AgentSettings {
    /// The file with the specification.
    pub spec: PathBuf,
    /// Absolute path of the folder of this attempt.
    pub spool: PathBuf,
    /// Absolute path of a folder that the agents of a node share: the packages of attempts, and their environments.
    pub cache: PathBuf,
    /// Replaces the address of the server in the specification.
    pub server: Option<String>,
    /// Replaces the token in the specification.
    pub token: Option<String>,
    /// The address of this machine for the other replicas of the attempt; `None` for that on the way to the server.
    pub host: Option<IpAddr>,
    /// Time without an answer of the server after which the program is ended.
    pub out_of_reach: Duration,
    /// Time between two reports.
    pub interval: Duration,
    /// The program that calls [`supervise_if_asked`](tunesmith_executor::local::supervise_if_asked).
    pub supervisor: PathBuf,
    /// The variables of this process that programs inherit.
    pub environment: PassedEnvironment,
}

/// How the work of an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The end of the program was delivered.
    Delivered,
    /// The server refused the attempt: it is superseded.
    Superseded,
    /// The server was not reached for too long.
    OutOfReach,
}

/// Why an agent could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum AgentFailure {
    #[error("the specification {} {reason}", path.display())]
    Spec { path: PathBuf, reason: String },
    #[error("the server {address:?} cannot be used: {reason}")]
    Server { address: String, reason: String },
    #[error("the folder {path:?} has no absolute path")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("this program's own file cannot be found")]
    OwnProgram(#[source] io::Error),
    #[error("the threads of this program cannot be started")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Environment(#[from] PassVariableError),
    #[error("the spool folder {} cannot be used", path.display())]
    Spool {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no address is found at which the other replicas reach this one; state it with --host")]
    Address(#[source] io::Error),
    #[error("no address for reports of the program can be opened")]
    Endpoint(#[source] io::Error),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// Runs the attempt of `settings`, reports it, and returns when the server knows its end or has superseded the attempt.
///
/// # Errors
/// [`AgentFailure`]; a program that was started is ended when this process ends.
pub async fn run(settings: AgentSettings) -> Result<AgentOutcome, AgentFailure> {
    let mut attempt = Attempt::begin(settings).await?;
    match attempt.start_program().await? {
        Some(outcome) => Ok(outcome),
        None => attempt.watch_program().await,
    }
}
