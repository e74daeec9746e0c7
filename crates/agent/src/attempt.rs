//! Lifecycle of an attempt in an agent: its specification, packages, program and end.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::client::Client;
use super::endpoint::Endpoint;
use super::oom_kills::{CONTROL_GROUPS, OomKills};
use super::outbox::Outbox;
use super::packages;
use super::rendezvous::{Reserved, host_towards};
use super::shipper::{Event, Rendezvous, Shipper, Shipping};
use super::{AgentFailure, AgentOutcome, AgentSettings};
use tunesmith_executor::local::{LocalExecutor, LocalSettings};
use tunesmith_executor::logs::{self, LogName};
use tunesmith_executor::remote::{AgentEnd, AgentId, AgentSpec, SPEC_FORMAT};
use tunesmith_executor::reports::{Reports, SentReports};
use tunesmith_executor::{
    AgentPackages, AttemptReports, Executor, ExecutorError, ExecutorJobSpec, ExecutorJobState, ExitStatus, Placement,
    ProgramEnd, StopMode, StopReason,
};
use tunesmith_files::RootedPath;

/// Environment variables of a program that reports over HTTP.
const ENDPOINT: &str = "TUNESMITH_ENDPOINT";
const TOKEN: &str = "TUNESMITH_TOKEN";
const TRIAL: &str = "TUNESMITH_TRIAL";

/// Signal by which the kernel kills a process that exceeds its memory limit.
const SIGKILL: i32 = 9;

/// Maximum size of a specification file in bytes.
const MAX_SPEC_BYTES: u64 = 64 << 20;

/// Attempt reported to its server.
pub(super) struct Attempt {
    settings: AgentSettings,
    /// Server address.
    address: String,
    spec: ExecutorJobSpec,
    executor: LocalExecutor,
    client: Client,
    /// Address of the replica, reserved until its program binds it.
    reserved: Option<Reserved>,
    /// Addresses of all replicas, once known.
    addresses: Arc<OnceLock<Vec<String>>>,
    /// Requests of the server.
    events: mpsc::UnboundedReceiver<Event>,
    signals: Signals,
    end: watch::Sender<Option<AgentEnd>>,
    /// Preemption notice.
    notice: watch::Sender<Option<String>>,
    /// Memory kills in the container since the program started; `None` for an agent that shares its container.
    oom_kills: Option<OomKills>,
}

impl Attempt {
    /// Reads the specification of `settings` and starts reporting to its server.
    pub(super) async fn begin(settings: AgentSettings) -> Result<Self, AgentFailure> {
        let spool_error = |source| AgentFailure::Spool { path: settings.spool.clone(), source };
        let AgentSpec { spec, log_quota_bytes, .. } = read_spec(&settings.spec)?;
        let address = settings.server.as_ref().unwrap_or(&spec.server.address).clone();
        let client = Client::new(&address, &settings, &spec)?;
        fs::create_dir_all(&settings.spool).map_err(spool_error)?;
        let job = settings.spool.join("job");
        let mut spec = relocated(spec, &job);
        spec.working_directory = std::path::absolute(&spec.working_directory).map_err(spool_error)?;
        let outbox = Arc::new(Outbox::open(&settings.spool).map_err(spool_error)?);
        serve_reports(&mut spec, &address, client.server().http().clone(), &outbox).await?;
        let executor = LocalExecutor::new(LocalSettings {
            supervisor: settings.supervisor.clone(),
            registry: settings.spool.join("executions"),
            environment: settings.environment.clone(),
            ends_with_this_process: true,
            log_quota_bytes,
            ..LocalSettings::default()
        });
        let attempt = AttemptReports { id: &spec.id, directory: &spec.directory, sources: &spec.reports };
        let known = outbox.spool().all(spec.id.attempt).map_err(spool_error)?;
        let reports: Box<dyn Reports> = match spec.has_master() {
            true => executor.reports(&attempt, &known),
            false => Box::new(SentReports::default()),
        };
        let (reserved, addresses) =
            (reserve(&settings, &spec, client.server().url()).await?, Arc::new(OnceLock::new()));
        let rendezvous = AgentId::of(&spec).task.zip(reserved.as_ref()).map(|(task, reserved)| Rendezvous {
            task,
            address: reserved.address,
            addresses: Arc::clone(&addresses),
        });
        let (asking, events) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let (notice, preempted) = watch::channel(None);
        let shipping = Shipping {
            client: client.clone(),
            reports,
            job,
            id: spec.id.clone(),
            ended,
            preempted,
            events: asking,
            outbox,
            rendezvous,
            settings: &settings,
        };
        // Ends, and closes its channel, when nothing is left to deliver.
        tokio::spawn(Shipper::new(shipping).run());
        let signals = Signals::new().map_err(spool_error)?;
        let oom_kills = None;
        Ok(Self {
            address,
            spec,
            executor,
            client,
            reserved,
            addresses,
            events,
            signals,
            end,
            notice,
            oom_kills,
            settings,
        })
    }

    /// Starts the program once its packages are installed and the server wants it to run. Returns the outcome of an
    /// attempt that is over before that, without an end to report.
    pub(super) async fn start_program(&mut self) -> Result<Option<AgentOutcome>, AgentFailure> {
        // Wait for the first response before starting anything: it states whether the attempt is wanted.
        let mut event = tokio::select! {
            event = self.events.recv() => event,
            _ = self.signals.received() => Some(Event::Stop(StopMode::Graceful)),
        };
        if let (Some(Event::Wanted), Some(packages)) = (event, self.spec.packages.take()) {
            event = self.install(&packages).await;
        }
        // Only the first process of a container has the control group to itself.
        self.oom_kills = (std::process::id() == 1).then(|| OomKills::since_now(Path::new(CONTROL_GROUPS)));
        match event {
            Some(Event::Wanted) if self.end.borrow().is_some() => {}
            Some(Event::Wanted) => {
                if let (Some(part), Some(known)) = (&mut self.spec.part, self.addresses.get()) {
                    part.addresses.clone_from(known);
                }
                // The program binds the port.
                drop(self.reserved.take());
                if let Err(error) = self.executor.submit(&self.spec).await {
                    let ExecutorError::Rejected { reason, .. } = error else { return Err(error.into()) };
                    self.end.send_replace(Some(not_started(reason)));
                }
            }
            Some(Event::Stop(_)) => {
                self.notice.send_replace(Some("it was asked to end before it started its program".to_owned()));
                self.end.send_replace(Some(AgentEnd::Preempted { reason: "SIGTERM before the start".to_owned() }));
            }
            Some(Event::Superseded) => return Ok(Some(AgentOutcome::Superseded)),
            Some(Event::OutOfReach) | None => {
                tracing::error!(
                    server.address = self.address,
                    "the server was never reached, so no program was started: check the address and the network of this node"
                );
                return Ok(Some(AgentOutcome::OutOfReach));
            }
        }
        Ok(None)
    }

    /// Installs `packages` and returns the next event: [`Event::Wanted`] unless the attempt is about to end. A failed
    /// installation ends the attempt.
    async fn install(&mut self, packages: &AgentPackages) -> Option<Event> {
        // All replicas of an attempt install the same packages: one log is enough.
        let log = self.spec.has_master().then(|| {
            let trial = self.spec.id.trial.map(|trial| trial.0);
            logs::path(&LogName::packages_of(trial, self.spec.id.attempt), &self.settings.spool.join("job"))
        });
        let installed = tokio::select! {
            installed = packages::install(&self.client, &self.settings.cache, packages, log.as_deref()) => installed,
            event = self.events.recv() => return event,
            _ = self.signals.received() => return Some(Event::Stop(StopMode::Graceful)),
        };
        match installed {
            Ok(python) => packages::use_environment(&mut self.spec, &python),
            Err(reason) => {
                let reason = format!("its packages cannot be installed: {reason}");
                self.end.send_replace(Some(not_started(reason)));
            }
        }
        Some(Event::Wanted)
    }

    /// Waits for the end of the program, stops it on request, and returns once its end is delivered.
    pub(super) async fn watch_program(self) -> Result<AgentOutcome, AgentFailure> {
        let Self { settings, address, spec, executor, mut events, mut signals, end, notice, oom_kills, .. } = self;
        let mut outcome = AgentOutcome::Delivered;
        // Whether this process asked the program to end for a reason other than preemption.
        let mut was_asked = false;
        let waiting = executor.wait(&spec.id);
        tokio::pin!(waiting);
        let mut is_over = end.borrow().is_some();
        let ended = |state, was_asked| {
            let is_out_of_memory = oom_kills.as_ref().is_some_and(OomKills::any);
            let how = end_of(state, notice.borrow().clone(), was_asked, is_out_of_memory);
            let written = write_end(&settings.spool, &how);
            written.map_err(|source| AgentFailure::Spool { path: settings.spool.clone(), source })?;
            Ok::<_, AgentFailure>(how)
        };
        loop {
            tokio::select! {
                state = &mut waiting, if !is_over => {
                    is_over = true;
                    let how = ended(state?, was_asked)?;
                    if outcome == AgentOutcome::Superseded {
                        break;
                    }
                    end.send_replace(Some(how));
                }
                event = events.recv() => {
                    let how = match event {
                        Some(Event::Wanted) => continue,
                        Some(Event::Stop(how)) => how,
                        Some(Event::Superseded) => {
                            outcome = AgentOutcome::Superseded;
                            StopMode::Immediate
                        }
                        Some(Event::OutOfReach) => {
                            outcome = AgentOutcome::OutOfReach;
                            tracing::error!(
                                server.address = address,
                                limit_secs = settings.out_of_reach.as_secs_f64(),
                                "the server was out of reach for too long; the program is ended, and its end written to exit.json"
                            );
                            StopMode::Graceful
                        }
                        // The shipper has nothing left to deliver.
                        None => {
                            if !is_over {
                                ended(waiting.as_mut().await?, was_asked)?;
                            }
                            break;
                        }
                    };
                    was_asked = true;
                    executor.stop(&spec.id, how).await?;
                }
                signal = signals.received() => {
                    tracing::info!(signal, "the place of this attempt is taken; its program is asked to end");
                    notice.send_replace(Some(signal.to_owned()));
                    executor.stop(&spec.id, StopMode::Graceful).await?;
                }
            }
        }
        Ok(outcome)
    }
}

/// Signals that announce a preemption.
struct Signals {
    terminated: Signal,
    interrupted: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminated: signal(SignalKind::terminate())?, interrupted: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminated.recv() => "SIGTERM",
            _ = self.interrupted.recv() => "SIGINT",
        }
    }
}

fn read_spec(path: &Path) -> Result<AgentSpec, AgentFailure> {
    let refuse = |reason: String| AgentFailure::Spec { path: path.to_owned(), reason };
    let bytes = RootedPath::from(path.to_owned())
        .read(MAX_SPEC_BYTES)
        .map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let spec: AgentSpec =
        serde_json::from_slice(&bytes).map_err(|error| refuse(format!("is not that of an agent: {error}")))?;
    if spec.format != SPEC_FORMAT {
        return Err(refuse(format!("has the format {}; this agent reads {SPEC_FORMAT}", spec.format)));
    }
    if spec.spec.part.is_some() && spec.spec.own_replicas().is_empty() {
        return Err(refuse("has no replica for this agent".to_owned()));
    }
    Ok(spec)
}

/// Gives the program of `spec` a local address for reports over HTTP, which are spooled and forwarded to the server at
/// `address`.
async fn serve_reports(
    spec: &mut ExecutorJobSpec,
    address: &str,
    http: reqwest::Client,
    outbox: &Arc<Outbox>,
) -> Result<(), AgentFailure> {
    let server = address.trim_end_matches('/').to_owned();
    if !spec.has_master() {
        // Only the master reports the metric. Reports of other replicas go directly to the server.
        if let Some(endpoint) = spec.environment.get_mut(ENDPOINT) {
            *endpoint = server;
        }
    } else if let (Some(trial), Some(token)) = (spec.environment.get(TRIAL), spec.environment.get(TOKEN)) {
        let (trial, token) = (trial.clone(), token.clone());
        let endpoint = Endpoint { http, server, trial, token, outbox: Arc::clone(outbox) };
        spec.environment.insert(ENDPOINT.to_owned(), endpoint.start().await.map_err(AgentFailure::Endpoint)?);
    }
    Ok(())
}

/// Reserves an address for the replica of `spec` if others run elsewhere.
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

/// Adapts the specification to a run with files below the local folder `job`.
fn relocated(mut spec: ExecutorJobSpec, job: &Path) -> ExecutorJobSpec {
    let attempt = format!("attempt-{}", spec.id.attempt);
    let directory = match spec.id.trial {
        Some(trial) => job.join("trials").join(trial.to_string()).join(attempt),
        None => job.join(attempt),
    };
    spec.move_to(directory);
    // The engine has already placed the agent.
    spec.placement = Placement::default();
    spec
}

fn not_started(reason: String) -> AgentEnd {
    AgentEnd::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None })
}

/// End of an attempt with a program in `state`, after a preemption `notice`, if any. A program that exits by itself in
/// time keeps its result. `is_out_of_memory` states whether the kernel killed a process of the container for lack of
/// memory.
fn end_of(mut state: ExecutorJobState, notice: Option<String>, was_asked: bool, is_out_of_memory: bool) -> AgentEnd {
    if let ExecutorJobState::Ended(ExitStatus { end: end @ ProgramEnd::Signaled(SIGKILL), stopped: None }) = &mut state
        && is_out_of_memory
    {
        *end = ProgramEnd::OutOfMemory;
    }
    // An engine may signal all processes of a container, the supervisor first.
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
    Ok(RootedPath::new(spool, "exit.json").replace(&serde_json::to_vec(end)?, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_program_is_out_of_memory_only_if_the_kernel_killed_a_process_for_it() {
        let ended = |end, stopped| ExecutorJobState::Ended(ExitStatus { end, stopped });
        let end_of = |state, is_out_of_memory| super::end_of(state, None, false, is_out_of_memory);
        let killed = || ended(ProgramEnd::Signaled(9), None);
        let out_of_memory = ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None };
        assert_eq!(end_of(killed(), true), AgentEnd::Ended(out_of_memory));
        for (state, is_out_of_memory) in [
            (killed(), false),
            (ended(ProgramEnd::Signaled(11), None), true),
            (ended(ProgramEnd::Exited(1), None), true),
            (ended(ProgramEnd::Signaled(9), Some(StopReason::TimeLimit)), true),
        ] {
            let ExecutorJobState::Ended(status) = state.clone() else { unreachable!() };
            assert_eq!(end_of(state, is_out_of_memory), AgentEnd::Ended(status));
        }
    }
}
