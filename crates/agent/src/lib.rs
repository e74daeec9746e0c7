#![doc = include_str!("../README.md")]

mod client;
mod command;
mod endpoint;
mod kept;
mod packages;
pub mod process;
mod rendezvous;
mod shipper;
mod spool;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::client::Client;
use self::endpoint::Endpoint;
use self::kept::Kept;
use self::packages::error_text;
use self::rendezvous::{Reserved, host_towards};
use self::shipper::{Event, Rendezvous, Shipper, Shipping};
use tunesmith_client::http_client;
use tunesmith_executor::local::{LocalExecutor, LocalSettings, PassVariableError, PassedEnvironment};
use tunesmith_executor::remote::{AgentEnd, AgentId, AgentSpec, SPEC_FORMAT};
use tunesmith_executor::reports::SentReports;
use tunesmith_executor::{
    AttemptReports, Executor, ExecutorError, ExecutorJobSpec, ExecutorJobState, ExitStatus, Placement, ProgramEnd,
    StopMode, StopReason, host_name,
};
use tunesmith_files::Place;

pub use self::command::AgentArgs;

/// Environment variables of a program that reports over HTTP.
const ENDPOINT: &str = "TUNESMITH_ENDPOINT";
const TOKEN: &str = "TUNESMITH_TOKEN";
const TRIAL: &str = "TUNESMITH_TRIAL";

/// Maximum size of a specification file in bytes.
const MAX_SPEC_BYTES: u64 = 64 << 20;

/// The settings of an agent.
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
    /// The specification cannot be used.
    #[error("the specification {} {reason}", path.display())]
    Spec {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The address of the server cannot be used.
    #[error("the server {address:?} cannot be used: {reason}")]
    Server {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder has no absolute path.
    #[error("the folder {path:?} has no absolute path")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The path of this program, which supervises as well, is unknown.
    #[error("this program's own file cannot be found")]
    OwnProgram(#[source] io::Error),
    /// The threads of this program cannot be started.
    #[error("the threads of this program cannot be started")]
    Runtime(#[source] io::Error),
    /// The selection of variables cannot be used.
    #[error(transparent)]
    Environment(#[from] PassVariableError),
    /// The spool folder cannot be used.
    #[error("the spool folder {} cannot be used", path.display())]
    Spool {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No address for the other replicas of the attempt was found.
    #[error("no address is found at which the other replicas reach this one; state it with --host")]
    Address(#[source] io::Error),
    /// No address for reports of the program could be opened.
    #[error("no address for reports of the program can be opened")]
    Endpoint(#[source] io::Error),
    /// The program cannot be supervised.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// Runs the attempt of `settings`, reports it, and returns when the server knows its end or has superseded the attempt.
///
/// # Errors
/// [`AgentFailure`]; a program that was started is ended when this process ends.
pub async fn run(settings: AgentSettings) -> Result<AgentOutcome, AgentFailure> {
    let spool_error = |source| AgentFailure::Spool { path: settings.spool.clone(), source };
    let AgentSpec { spec, log_quota_bytes, reports_node, .. } = read_spec(&settings.spec)?;
    let address = settings.server.as_ref().unwrap_or(&spec.server.address).clone();
    let http = http_client(&address)
        .map_err(|error| AgentFailure::Server { address: address.clone(), reason: error_text(&error) })?;
    let client = Client::new(http.clone(), &address, &settings, &spec)?;
    fs::create_dir_all(&settings.spool).map_err(spool_error)?;
    let job = settings.spool.join("job");
    let mut spec = relocated(spec, &job);
    spec.working_directory = std::path::absolute(&spec.working_directory).map_err(spool_error)?;
    let kept = Arc::new(Kept::open(&settings.spool, spec.id.attempt).map_err(spool_error)?);
    if !spec.has_master() {
        // The metric is that of the master. What another replica reports by itself goes to the server.
        if let Some(endpoint) = spec.environment.get_mut(ENDPOINT) {
            address.trim_end_matches('/').clone_into(endpoint);
        }
    } else if let (Some(trial), Some(token)) = (spec.environment.get(TRIAL), spec.environment.get(TOKEN)) {
        let (trial, token) = (trial.clone(), token.clone());
        let server = address.trim_end_matches('/').to_owned();
        let endpoint = Endpoint { http, server, trial, token, kept: Arc::clone(&kept) };
        spec.environment.insert(ENDPOINT.to_owned(), endpoint.start().await.map_err(AgentFailure::Endpoint)?);
    }
    let executor = LocalExecutor::new(LocalSettings {
        supervisor: settings.supervisor.clone(),
        registry: settings.spool.join("executions"),
        environment: settings.environment.clone(),
        ends_with_this_process: true,
        log_quota_bytes,
        ..LocalSettings::default()
    });
    let attempt = AttemptReports { id: &spec.id, directory: &spec.directory, sources: &spec.reports };
    let known = kept.known().map_err(spool_error)?;
    let reports = match spec.has_master() {
        true => executor.reports(&attempt, !known.is_empty(), known),
        false => Box::new(SentReports::default()),
    };
    let (mut reserved, addresses) = (reserve(&settings, &spec, client.url()).await?, Arc::new(OnceLock::new()));
    let task = AgentId::of(&spec).task;
    let rendezvous = task.zip(reserved.as_ref()).map(|(task, reserved)| Rendezvous {
        task,
        address: reserved.address,
        addresses: Arc::clone(&addresses),
    });
    let (events, mut asked) = mpsc::unbounded_channel();
    let (end, ended) = watch::channel(None);
    let (notice, preempted) = watch::channel(None);
    let id = spec.id.clone();
    let packages_client = client.clone();
    let node = reports_node.then(host_name);
    let shipping =
        Shipping { client, reports, job, id, ended, preempted, events, kept, node, rendezvous, settings: &settings };
    // It ends when it has nothing left to do, and its channel with it.
    tokio::spawn(Shipper::new(shipping).run());
    let mut terminated = signal(SignalKind::terminate()).map_err(spool_error)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(spool_error)?;
    // The first answer states whether the attempt is wanted, before anything is started.
    let mut first = tokio::select! {
        event = asked.recv() => event,
        _ = terminated.recv() => Some(Event::Stop(StopMode::Graceful)),
        _ = interrupted.recv() => Some(Event::Stop(StopMode::Graceful)),
    };
    let mut failed = None;
    if let (Some(Event::Wanted), Some(packages)) = (first, spec.packages.take()) {
        first = tokio::select! {
            installed = packages::install(&packages_client, &settings.cache, &packages) => {
                match installed {
                    Ok(python) => packages::use_environment(&mut spec, &python),
                    Err(reason) => failed = Some(format!("its packages cannot be installed: {reason}")),
                }
                Some(Event::Wanted)
            }
            event = asked.recv() => event,
            _ = terminated.recv() => Some(Event::Stop(StopMode::Graceful)),
            _ = interrupted.recv() => Some(Event::Stop(StopMode::Graceful)),
        };
    }
    match first {
        Some(Event::Wanted) if failed.is_some() => drop(end.send_replace(failed.map(not_started))),
        Some(Event::Wanted) => {
            if let (Some(part), Some(known)) = (&mut spec.part, addresses.get()) {
                part.addresses.clone_from(known);
            }
            // The program binds the port.
            drop(reserved.take());
            if let Err(error) = executor.submit(&spec).await {
                let ExecutorError::Rejected { reason, .. } = error else { return Err(error.into()) };
                end.send_replace(Some(not_started(reason)));
            }
        }
        Some(Event::Stop(_)) => {
            notice.send_replace(Some("it was asked to end before it started its program".to_owned()));
            end.send_replace(Some(AgentEnd::Preempted { reason: "SIGTERM before the start".to_owned() }));
        }
        Some(Event::Superseded) => return Ok(AgentOutcome::Superseded),
        Some(Event::OutOfReach) | None => {
            tracing::error!(
                server.address = address,
                "the server was never reached, so no program was started: check the address and the network of this node"
            );
            return Ok(AgentOutcome::OutOfReach);
        }
    }
    let mut outcome = AgentOutcome::Delivered;
    // Whether this process has asked the program to end, for another reason than a preemption.
    let mut was_asked = false;
    let waiting = executor.wait(&spec.id);
    tokio::pin!(waiting);
    let mut is_over = end.borrow().is_some();
    loop {
        tokio::select! {
            state = &mut waiting, if !is_over => {
                is_over = true;
                let how = end_of(state?, notice.borrow().clone(), was_asked);
                write_end(&settings.spool, &how).map_err(spool_error)?;
                if outcome == AgentOutcome::Superseded {
                    break;
                }
                end.send_replace(Some(how));
            }
            event = asked.recv() => match event {
                Some(Event::Stop(how)) => {
                    was_asked = true;
                    executor.stop(&spec.id, how).await?;
                }
                Some(Event::Superseded) => {
                    outcome = AgentOutcome::Superseded;
                    was_asked = true;
                    executor.stop(&spec.id, StopMode::Immediate).await?;
                }
                Some(Event::OutOfReach) => {
                    outcome = AgentOutcome::OutOfReach;
                    tracing::error!(
                        server.address = address,
                        limit_secs = settings.out_of_reach.as_secs_f64(),
                        "the server was out of reach for too long; the program is ended, and its end written to exit.json"
                    );
                    was_asked = true;
                    executor.stop(&spec.id, StopMode::Graceful).await?;
                }
                Some(Event::Wanted) => {}
                // The shipper has nothing left to do.
                None => {
                    if !is_over {
                        let how = end_of(waiting.as_mut().await?, notice.borrow().clone(), was_asked);
                        write_end(&settings.spool, &how).map_err(spool_error)?;
                    }
                    break;
                }
            },
            _ = terminated.recv() => preempt(&executor, &spec, &notice, "SIGTERM").await?,
            _ = interrupted.recv() => preempt(&executor, &spec, &notice, "SIGINT").await?,
        }
    }
    Ok(outcome)
}

/// Passes the notice of a preemption on.
async fn preempt(
    executor: &LocalExecutor,
    spec: &ExecutorJobSpec,
    notice: &watch::Sender<Option<String>>,
    name: &str,
) -> Result<(), ExecutorError> {
    tracing::info!(signal = name, "the place of this attempt is taken; its program is asked to end");
    notice.send_replace(Some(name.to_owned()));
    executor.stop(&spec.id, StopMode::Graceful).await
}

fn read_spec(path: &Path) -> Result<AgentSpec, AgentFailure> {
    let refuse = |reason: String| AgentFailure::Spec { path: path.to_owned(), reason };
    let bytes = Place::from(path.to_owned())
        .read(MAX_SPEC_BYTES)
        .map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let spec: AgentSpec =
        serde_json::from_slice(&bytes).map_err(|error| refuse(format!("is not that of an agent: {error}")))?;
    if !(1..=SPEC_FORMAT).contains(&spec.format) {
        return Err(refuse(format!("has the format {}; this agent reads those up to {SPEC_FORMAT}", spec.format)));
    }
    if spec.spec.part.is_some() && spec.spec.own_replicas().is_empty() {
        return Err(refuse("has no replica for this agent".to_owned()));
    }
    Ok(spec)
}

/// Reserves an address for the replica of `spec`, if the attempt has others in other places.
async fn reserve(
    settings: &AgentSettings,
    spec: &ExecutorJobSpec,
    server: &reqwest::Url,
) -> Result<Option<Reserved>, AgentFailure> {
    let Some(part) = &spec.part else { return Ok(None) };
    let host = match settings.host {
        Some(host) => host,
        None => host_towards(server).await.map_err(AgentFailure::Address)?,
    };
    let offset = u16::try_from(part.replica).unwrap_or(u16::MAX);
    let port = spec.start_port.map(|first| first.saturating_add(offset));
    Reserved::new(host, port).map(Some).map_err(AgentFailure::Address)
}

/// The specification for a run whose files are below the folder `job` of this machine.
fn relocated(mut spec: ExecutorJobSpec, job: &Path) -> ExecutorJobSpec {
    let attempt = format!("attempt-{}", spec.id.attempt);
    let directory = match spec.id.trial {
        Some(trial) => job.join("trials").join(trial.to_string()).join(attempt),
        None => job.join(attempt),
    };
    spec.move_to(directory);
    // The engine has placed the agent.
    spec.placement = Placement::default();
    spec
}

fn not_started(reason: String) -> AgentEnd {
    AgentEnd::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None })
}

/// The end of an attempt whose program is in `state`, after the `notice` of a preemption. A program that ends by itself
/// in time keeps its result.
fn end_of(state: ExecutorJobState, notice: Option<String>, was_asked: bool) -> AgentEnd {
    // An engine may signal all processes of a place, and the supervisor first.
    let is_signalled =
        matches!(&state, ExecutorJobState::Ended(status) if status.stopped == Some(StopReason::Requested));
    let notice = notice.or_else(|| (is_signalled && !was_asked).then(|| "SIGTERM".to_owned()));
    match (state, notice) {
        (ExecutorJobState::Ended(status), None) => AgentEnd::Ended(status),
        (ExecutorJobState::Ended(status), Some(_)) if status.stopped.is_none() => AgentEnd::Ended(status),
        (_, Some(notice)) => AgentEnd::Preempted { reason: format!("its place was taken ({notice})") },
        (ExecutorJobState::Lost { reason, .. }, None) => AgentEnd::Lost { reason },
        (state, None) => AgentEnd::Lost { reason: format!("the records of its supervisor were removed ({state:?})") },
    }
}

/// Writes the end to `exit.json` in the spool folder, by rename.
fn write_end(spool: &Path, end: &AgentEnd) -> io::Result<()> {
    Ok(Place::new(spool, "exit.json").replace(&serde_json::to_vec(end)?, true)?)
}
