//! The process that runs one attempt. It starts the programs, enforces the time limit, executes stop requests and
//! records the end. It survives the server.
//!
//! The supervisor is single-threaded and the sub-reaper of its programs: a program that forks, changes its session or
//! leaves its process group remains its descendant. SIGTERM and SIGINT stop the attempt gracefully, SIGUSR1 at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, getppid, kill_process, kill_process_group,
    set_child_subreaper, setpgid, setsid, wait,
};

use super::attempt::{Attempt, AttemptOutcome, End, FORMAT, Started, Submission};
use super::launch;
use super::log_quota::LogQuota;
use super::processes::{TOKEN_VARIABLE, descendants};
use super::watchdog::monotonic;
use crate::tf_config::Cluster;
use crate::{ExitStatus, Program, ProgramEnd, Replica, StopReason};
use tunesmith_files::Place;

/// Minimum run time of programs whose end is synced to disk. Syncing costs more than running a shorter program again
/// after a power failure.
const MIN_SYNCED_RUN: Duration = Duration::from_secs(1);

/// Interval at which remaining processes are killed again: a program may fork during the search.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// The file in the folder of an attempt that contains the messages of its supervisor.
pub const SUPERVISOR_LOG: &str = "supervisor.log";

/// The exit code of docker and podman if they could not run the container.
const ENGINE_FAILED: i32 = 125;

/// Supervises the attempt whose files are in `folder` until its end. Standard input must be its locked file `lock`.
pub fn supervise(folder: &Path) -> ExitCode {
    // Relative paths remain those of the attempt if its data folder is moved.
    if std::env::set_current_dir(folder).is_err() {
        return ExitCode::FAILURE;
    }
    let attempt = Attempt::new(".");
    match Supervisor::prepare(attempt.clone()).and_then(Supervisor::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without `exit.json` the attempt is reported as lost once this process has ended; the log contains why.
            note(&attempt, &format!("the supervisor failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

struct Supervisor {
    attempt: Attempt,
    submission: Submission,
    signals: SignalFd,
    /// Started replicas that have not been reaped, by process ID.
    running: BTreeMap<i32, Replica>,
    begin: Instant,
    phase: Phase,
    master_end: Option<ProgramEnd>,
    stopped: Option<StopReason>,
    log_quota: LogQuota,
    /// Whether the process has ended that this one ends with.
    is_alone: bool,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// SIGTERM was sent to all processes; SIGKILL follows at this time.
    Terminating(Instant),
    Killing,
}

impl Supervisor {
    fn prepare(attempt: Attempt) -> io::Result<Self> {
        let lock = io::stdin().as_fd().try_clone_to_owned()?;
        let expected = fs::metadata(attempt.folder().join("lock"))?;
        let given = fs::File::from(lock);
        let metadata = given.metadata()?;
        if (metadata.dev(), metadata.ino()) != (expected.dev(), expected.ino()) {
            return Err(io::Error::other("standard input is not the lock of the attempt"));
        }
        flock(&given, FlockOperation::NonBlockingLockExclusive)?;
        // From here on stop signals are queued; an earlier request has written `stop.json`.
        let mask: SigSet = [Caught::SIGTERM, Caught::SIGINT, Caught::SIGUSR1, Caught::SIGCHLD].into_iter().collect();
        mask.thread_block()?;
        own_session();
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        set_child_subreaper(Some(getpid()))?;
        Attempt::write_pid(&given, std::process::id())?;
        let submission = attempt.submission()?.ok_or_else(|| io::Error::other("spec.json is missing or damaged"))?;
        let log_quota = LogQuota::new(submission.log_quota_bytes);
        Ok(Self {
            attempt,
            submission,
            log_quota,
            signals,
            running: BTreeMap::new(),
            begin: Instant::now(),
            phase: Phase::Running,
            master_end: None,
            stopped: None,
            is_alone: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        if self.attempt.end()?.is_some() || self.attempt.has_started()? {
            return Ok(());
        }
        if self.attempt.stop_request()?.is_some() {
            self.stopped = Some(StopReason::Requested);
            self.master_end = Some(ProgramEnd::NotStarted("it was stopped before it started".to_owned()));
            return self.record();
        }
        self.attempt.write_started(&Started {
            format: FORMAT,
            token: self.submission.token.clone(),
            supervisor_pid: std::process::id(),
            monotonic_ms: u64::try_from(monotonic().as_millis()).ok(),
        })?;
        if let Err(reason) = self.start_all() {
            self.master_end = Some(ProgramEnd::NotStarted(reason));
            self.phase = Phase::Killing;
        }
        while self.reap()? {
            let checked = self.log_quota.check(Instant::now());
            self.note_quota_error(checked);
            self.advance()?;
            self.sleep()?;
            self.take_signals()?;
        }
        let checked = self.log_quota.finish();
        self.note_quota_error(checked);
        if let Some(engine) = &self.submission.engine {
            engine.remove(&self.submission.spec, &self.submission.token, self.submission.identity.as_ref());
        }
        self.record()
    }

    /// Reports that logs cannot be shortened, once: the programs continue.
    fn note_quota_error(&mut self, checked: io::Result<()>) {
        if let Err(error) = checked {
            note(&self.attempt, &format!("the logs cannot be kept within their quota: {error}"));
            self.log_quota = LogQuota::new(None);
        }
    }

    /// Starts the replicas. The error text names the replica that cannot be started.
    fn start_all(&mut self) -> Result<(), String> {
        let spec = &self.submission.spec;
        if !spec.working_directory.is_dir() {
            return Err(format!("its working directory {} is not a folder", spec.working_directory.display()));
        }
        if let Some(identity) = &self.submission.identity {
            for folder in &spec.program_folders {
                let created = identity.create_folder(folder, self.submission.umask);
                created.map_err(|error| format!("its folder {} cannot be created: {error}", folder.display()))?;
            }
        }
        let addresses = match spec.start_port {
            Some(first) => consecutive_addresses(first, spec.replicas.len())?,
            None => free_addresses(spec.replicas.len()).map_err(|error| format!("no port is free: {error}"))?,
        };
        let cluster = Cluster::new(spec, &addresses);
        for replica in &spec.replicas {
            let command = self.command(replica, &cluster)?;
            let program = command.get_program().to_owned();
            // A container engine runs as the user of the programs, too: one of root would give access to all files.
            let identity = self.submission.identity.as_ref();
            match launch::start(command, replica, &spec.directory, identity, self.submission.umask) {
                Ok((pid, logs)) => {
                    self.log_quota.add(logs);
                    self.running.insert(pid.as_raw_nonzero().get(), replica.clone())
                }
                Err(error) => {
                    let name = launch::replica_name(replica);
                    return Err(format!("{name} cannot start {}: {error}", program.display()));
                }
            };
        }
        Ok(())
    }

    fn command(&self, replica: &Replica, cluster: &Cluster<'_>) -> Result<Command, String> {
        let Submission { spec, token, engine, .. } = &self.submission;
        let mut variables = spec.environment.clone();
        // For the process on this machine, not for the inside of a container.
        let mut own: BTreeMap<String, String> = BTreeMap::new();
        variables.insert(TOKEN_VARIABLE.to_owned(), token.clone());
        if let Some(identity) = &self.submission.identity {
            let of_user = identity.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
            own.extend(of_user);
        }
        let tf_config = cluster.tf_config(replica);
        let mut command = match &replica.program {
            Program::Command { argv } => {
                let (program, arguments) = argv.split_first().ok_or("its command is empty")?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            Program::Container { .. } => {
                variables.insert("CLUSTER_SPEC".to_owned(), tf_config.clone());
                let names = variables.keys().cloned().chain(["TF_CONFIG".to_owned()]);
                let line = engine.as_ref().and_then(|engine| engine.run(spec, token, replica, names));
                line.ok_or("it is a container, and no engine was chosen")?
            }
        };
        command.envs(&own).envs(&variables).env("TF_CONFIG", tf_config).current_dir(&spec.working_directory);
        Ok(command)
    }

    /// Reaps ended processes. Returns false if no descendant is left.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) => return Ok(true),
                // A sub-reaper without children has no descendants.
                Err(Errno::CHILD) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let Some(replica) = self.running.remove(&pid.as_raw_nonzero().get()) else { return };
        let end = program_end(status);
        let is_master = replica.role == self.submission.spec.replicas[0].role
            && replica.index == self.submission.spec.replicas[0].index;
        if !is_master {
            if self.master_end.is_none() && end != ProgramEnd::Exited(0) {
                let name = launch::replica_name(&replica);
                note(&self.attempt, &format!("{name} ended before the master, whose end decides: {end:?}"));
            }
            return;
        }
        let in_container = matches!(replica.program, Program::Container { .. });
        self.master_end.get_or_insert(match end {
            ProgramEnd::Exited(ENGINE_FAILED) if in_container => {
                ProgramEnd::NotStarted("the container engine could not run it".to_owned())
            }
            end => end,
        });
    }

    /// Performs the transitions that are due.
    fn advance(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if let Phase::Running = self.phase {
            if self.master_end.is_some() {
                self.terminate(now)?;
            } else if self.time_limit().is_some_and(|limit| now >= limit) {
                self.stopped = Some(StopReason::TimeLimit);
                self.terminate(now)?;
            }
        }
        if let Phase::Terminating(kill_at) = self.phase
            && now >= kill_at
        {
            self.phase = Phase::Killing;
        }
        if let Phase::Killing = self.phase {
            for process in descendants()? {
                // The process may have ended already; the next iteration checks again.
                let _ = kill_process(process.pid, Signal::KILL);
            }
        }
        Ok(())
    }

    /// Sends SIGTERM to every process once: to the process groups of replicas, and to other processes one by one.
    fn terminate(&mut self, now: Instant) -> io::Result<()> {
        for &group in self.running.keys() {
            if let Some(pid) = Pid::from_raw(group) {
                let _ = kill_process_group(pid, Signal::TERM);
                // A suspended program does not handle SIGTERM before it is continued.
                let _ = kill_process_group(pid, Signal::CONT);
            }
        }
        for process in descendants()?.into_iter().filter(|process| !self.running.contains_key(&process.group)) {
            let _ = kill_process(process.pid, Signal::TERM);
            let _ = kill_process(process.pid, Signal::CONT);
        }
        // A grace period that overflows the clock counts as infinite.
        self.phase = match now.checked_add(self.submission.spec.grace) {
            Some(kill_at) => Phase::Terminating(kill_at),
            None => Phase::Terminating(now + Duration::from_secs(u64::from(u32::MAX))),
        };
        Ok(())
    }

    fn time_limit(&self) -> Option<Instant> {
        self.submission.spec.time_limit.and_then(|limit| self.begin.checked_add(limit))
    }

    /// Waits for a signal or the next due transition.
    fn sleep(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let timeout = match self.phase {
            Phase::Running => self.time_limit().map(|limit| limit.saturating_duration_since(now)),
            Phase::Terminating(kill_at) => Some(kill_at.saturating_duration_since(now)),
            Phase::Killing => Some(KILL_INTERVAL),
        };
        let timeout = [timeout, self.log_quota.until_check(now)].into_iter().flatten().min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let stdout = io::stdout();
        // Without events, only the end of the other side of a pipe is reported.
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&stdout, PollFlags::empty())];
        let watched = if self.is_alone { 1 } else { 2 };
        match poll(&mut polled[..watched], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_alone = polled[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        if is_alone && !self.is_alone {
            self.is_alone = true;
            note(&self.attempt, "the process that started the supervisor has ended; so does the program");
            if self.master_end.is_none() {
                self.stopped.get_or_insert(StopReason::Requested);
            }
            if let Phase::Running = self.phase {
                self.terminate(now)?;
            }
        }
        Ok(())
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(signal) = self.signals.read_signal()? {
            if signal.ssi_signo == Caught::SIGCHLD as u32 {
                continue;
            }
            if self.master_end.is_none() {
                self.stopped.get_or_insert(StopReason::Requested);
            }
            if signal.ssi_signo == Caught::SIGUSR1 as u32 {
                self.phase = Phase::Killing;
            } else if let Phase::Running = self.phase {
                self.terminate(Instant::now())?;
            }
        }
        Ok(())
    }

    fn record(self) -> io::Result<()> {
        let end = self.master_end.ok_or_else(|| io::Error::other("the master was not reaped"))?;
        let outcome = AttemptOutcome::Ended(ExitStatus { end, stopped: self.stopped });
        let durable = self.begin.elapsed() >= MIN_SYNCED_RUN;
        self.attempt.write_end(&End { format: FORMAT, token: self.submission.token, outcome }, durable)
    }
}

fn program_end(status: WaitStatus) -> ProgramEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProgramEnd::Exited(code),
        (None, Some(signal)) => ProgramEnd::Signaled(signal),
        // Stopped and continued processes are not waited for.
        (None, None) => ProgramEnd::Exited(status.as_raw()),
    }
}

/// Returns distinct addresses of this machine that were free at the time of the call. They are released before the
/// first program starts, since a listener of this process would accept connections for a program.
fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(TcpListener::bind(("127.0.0.1", 0))?);
    }
    held.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}

/// Addresses on this machine with the ports from `first` on, which have to be free.
fn consecutive_addresses(first: u16, count: usize) -> Result<Vec<String>, String> {
    let mut addresses = Vec::with_capacity(count);
    for index in 0..count {
        let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index));
        let port = port.ok_or_else(|| format!("{count} replicas need ports above 65535, starting at {first}"))?;
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
        addresses.push(listener.local_addr().map_err(|error| format!("port {port}: {error}"))?.to_string());
    }
    Ok(addresses)
}

/// Makes this process the leader of a new session, so that it has no terminal. The leader of a process group has to leave
/// it first, for that of its parent. It stays in the session if that is not possible.
fn own_session() {
    let parent_group = getppid().and_then(|parent| getpgid(Some(parent)).ok());
    if parent_group.is_some_and(|group| setpgid(None, Some(group)).is_ok()) {
        let _ = setsid();
    }
}

/// Adds a line to [`SUPERVISOR_LOG`], in the folder of the program's logs.
fn note(attempt: &Attempt, line: &str) {
    let folder = attempt.submission().ok().flatten().map(|submission| submission.spec.directory);
    let file = Place::new(folder.as_deref().unwrap_or(attempt.folder()), SUPERVISOR_LOG).append();
    // There is no other place to report a failure.
    let _ = file.map(|mut file| writeln!(file, "{line}"));
}
