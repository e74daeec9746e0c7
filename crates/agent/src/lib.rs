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
    /// File with the specification.
    pub spec: PathBuf,
    /// Absolute path of the attempt's folder.
    pub spool: PathBuf,
    /// Absolute path of a folder shared by the agents of a node, for packages and their environments.
    pub cache: PathBuf,
    /// Overrides the server address in the specification.
    pub server: Option<String>,
    /// Overrides the token in the specification.
    pub token: Option<String>,
    /// Address of this machine for the attempt's other replicas; `None` for the one used to reach the server.
    pub host: Option<IpAddr>,
    /// Time without a server response after which the program is stopped.
    pub out_of_reach: Duration,
    /// Interval between two reports.
    pub interval: Duration,
    /// Program that calls [`supervise_if_asked`](tunesmith_executor::local::supervise_if_asked).
    pub supervisor: PathBuf,
    /// Variables of this process that programs inherit.
    pub environment: PassedEnvironment,
}

/// Outcome of an agent's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The end of the program was delivered.
    Delivered,
    /// The server refused the attempt: it is superseded.
    Superseded,
    /// The server was unreachable for too long.
    OutOfReach,
}

/// Failures of an agent.
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

/// Runs and reports the attempt of `settings`. Returns once the server knows its end or has superseded it.
///
/// # Errors
/// [`AgentFailure`]; a program already started is stopped when this process exits.
pub async fn run(settings: AgentSettings) -> Result<AgentOutcome, AgentFailure> {
    let mut attempt = Attempt::begin(settings).await?;
    match attempt.start_program().await? {
        Some(outcome) => Ok(outcome),
        None => attempt.watch_program().await,
    }
}
