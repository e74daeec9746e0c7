//! Supervisor process of one attempt. It starts the programs, enforces the time limit, executes stop requests and
//! records the end. It survives the server.
//!
//! The supervisor is single-threaded and the sub-reaper of its programs: a program that forks, changes its session or
//! leaves its process group remains its descendant. SIGTERM and SIGINT stop the attempt gracefully, SIGUSR1
//! immediately.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, getppid, kill_process, kill_process_group, setpgid, setsid, wait,
};

mod signals;

use self::signals::queue_signals;
use super::addresses::{consecutive_addresses, free_addresses};
use super::attempt::{Attempt, AttemptOutcome, End, FORMAT, Started, StopRequest, Submission};
use super::environment::device_variables;
use super::launch;
use super::log_quota::LogQuota;
use super::processes::{TOKEN_VARIABLE, descendants};
use super::shared_watch::{self, Order, SharedWatch};
use super::watchdog::monotonic;
use super::{SUPERVISE_ARGUMENT, SUPERVISE_SHARED_ARGUMENT};
use crate::tf_config::Cluster;
use crate::{ExitStatus, Program, ProgramEnd, Replica, StopReason, may_pass};
use tunesmith_files::RootedPath;

/// Minimum run time for the end to be synced to disk. Syncing costs more than rerunning a shorter program after a power
/// failure.
const MIN_SYNCED_RUN: Duration = Duration::from_secs(1);

/// Interval at which remaining processes are killed again: a program may fork during the search.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// File in the attempt's folder with the supervisor's messages.
pub const SUPERVISOR_LOG: &str = "supervisor.log";

/// Exit code of docker and podman for containers that could not run.
const ENGINE_FAILED: i32 = 125;

/// Supervises an attempt if the `arguments` of this process, including its name, say so. Otherwise does nothing and
/// returns `None`.
pub fn supervise_if_asked(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let first = arguments.next()?;
    let supervisor = match first.to_str()? {
        SUPERVISE_ARGUMENT => supervise,
        SUPERVISE_SHARED_ARGUMENT => supervise_shared,
        _ => return None,
    };
    Some(arguments.next().map_or(ExitCode::FAILURE, |folder| supervisor(Path::new(&folder))))
}

/// Supervises the attempt with its files in `folder` until its end. Standard input must be its locked file `lock`.
fn supervise(folder: &Path) -> ExitCode {
    // Keeps relative paths valid if the data folder is moved.
    if std::env::set_current_dir(folder).is_err() {
        return ExitCode::FAILURE;
    }
    let attempt = Attempt::new(".");
    match Supervisor::prepare(attempt.clone()).and_then(Supervisor::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without `exit.json`, the attempt is reported as lost once this process has exited; the log gives the
            // reason.
            note(&attempt, &format!("the supervisor failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Supervises the attempt with its files in `folder` until its end, on a machine where an engine started this process.
/// The folder is shared with the submitting machine. Does nothing if the attempt has already started.
fn supervise_shared(folder: &Path) -> ExitCode {
    if let Err(error) = std::env::set_current_dir(folder) {
        return shared_failure(&format!("the folder {} cannot be entered: {error}", folder.display()));
    }
    let attempt = Attempt::new(".");
    match Supervisor::prepare_shared(attempt.clone()).and_then(Supervisor::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&attempt, &format!("the supervisor failed: {error}"));
            shared_failure(&error.to_string())
        }
    }
}

/// Writes the reason to standard error, which the engine stores.
fn shared_failure(reason: &str) -> ExitCode {
    // There is no other place to report a failure.
    let _ = writeln!(io::stderr(), "tunesmith: {reason}");
    ExitCode::FAILURE
}

struct Supervisor {
    attempt: Attempt,
    submission: Submission,
    signals: SignalFd,
    /// Started replicas not yet reaped, by process ID.
    running: BTreeMap<i32, Replica>,
    begin: Instant,
    phase: Phase,
    master_end: Option<ProgramEnd>,
    stopped: Option<StopReason>,
    log_quota: LogQuota,
    /// Present for an attempt submitted from another machine.
    watch: Option<SharedWatch>,
    /// Reason the attempt counts as lost, although this process is still running.
    lost: Option<AttemptOutcome>,
    /// Whether the parent process has exited.
    is_alone: bool,
}

/// Failures to start the programs.
enum StartFailure {
    /// The programs can never start.
    OfJob(String),
    /// The machine lacks something that another attempt may find.
    OfMachine(String),
}

impl StartFailure {
    /// Classifies the failure `reason` by its cause `error`.
    fn of(error: &io::Error, reason: String) -> Self {
        if may_pass(error) { Self::OfMachine(reason) } else { Self::OfJob(reason) }
    }
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
        let signals = queue_signals()?;
        own_session();
        Attempt::write_pid(&given, std::process::id())?;
        Self::with_submission(attempt, signals)
    }

    /// Like [`Self::prepare`], but without a lock, which not every shared file system supports. The claim of the
    /// attempt replaces it.
    fn prepare_shared(attempt: Attempt) -> io::Result<Self> {
        let signals = queue_signals()?;
        Self::with_submission(attempt, signals)
    }

    fn with_submission(attempt: Attempt, signals: SignalFd) -> io::Result<Self> {
        let submission = attempt.submission()?.ok_or_else(|| io::Error::other("spec.json is missing or damaged"))?;
        let log_quota = LogQuota::new(submission.log_quota_bytes);
        let watch = submission.shared.map(|times| SharedWatch::new(times, Instant::now()));
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
            watch,
            lost: None,
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
        if let Some(loss) = self.watch.as_ref().and_then(|_| shared_watch::loss(&self.attempt)) {
            self.lost = Some(loss);
            return self.record();
        }
        let started = Started {
            format: FORMAT,
            token: self.submission.token.clone(),
            supervisor_pid: std::process::id(),
            monotonic_ms: u64::try_from(monotonic().as_millis()).unwrap_or(u64::MAX),
            engine_job: self.watch.as_ref().and_then(|_| shared_watch::engine_job()),
        };
        if self.watch.is_none() {
            self.attempt.write_started(&started)?;
        } else if !shared_watch::claim(&self.attempt, &started)? {
            return Ok(());
        }
        if let Err(failure) = self.start_all() {
            match failure {
                StartFailure::OfJob(reason) => self.master_end = Some(ProgramEnd::NotStarted(reason)),
                StartFailure::OfMachine(reason) => self.lost = Some(AttemptOutcome::Lost { reason }),
            }
            self.phase = Phase::Killing;
        }
        while self.reap()? {
            let checked = self.log_quota.check(Instant::now());
            self.note_quota_error(checked);
            self.take_orders()?;
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

    /// Reports once that logs cannot be shortened; the programs continue.
    fn note_quota_error(&mut self, checked: io::Result<()>) {
        if let Err(error) = checked {
            note(&self.attempt, &format!("the logs cannot be kept within their quota: {error}"));
            self.log_quota = LogQuota::new(None);
        }
    }

    /// Starts the replicas. The error names the replica that failed to start.
    fn start_all(&mut self) -> Result<(), StartFailure> {
        let spec = &self.submission.spec;
        if let Err(error) = fs::metadata(&spec.working_directory)
            && may_pass(&error)
        {
            let reason = format!("its working directory {} cannot be read: {error}", spec.working_directory.display());
            return Err(StartFailure::OfMachine(reason));
        }
        if !spec.working_directory.is_dir() {
            let reason = format!("its working directory {} is not a folder", spec.working_directory.display());
            return Err(StartFailure::OfJob(reason));
        }
        if let Some(identity) = &self.submission.identity {
            for folder in &spec.program_folders {
                let created = identity.create_folder(folder, self.submission.umask);
                created.map_err(|error| {
                    StartFailure::of(&error, format!("its folder {} cannot be created: {error}", folder.display()))
                })?;
            }
        }
        let addresses = match (&spec.part, spec.start_port) {
            (Some(part), _) => part.addresses.clone(),
            (None, Some(first)) => consecutive_addresses(first, spec.replicas.len()).map_err(StartFailure::OfJob)?,
            (None, None) => free_addresses(spec.replicas.len())
                .map_err(|error| StartFailure::OfMachine(format!("no port is free: {error}")))?,
        };
        let cluster = Cluster::new(spec, &addresses);
        for replica in spec.own_replicas() {
            let command = self.command(replica, &cluster).map_err(StartFailure::OfJob)?;
            let program = command.get_program().to_owned();
            // Container engines also run as the user of the programs: one run by root would give access to all files.
            let identity = self.submission.identity.as_ref();
            match launch::start(command, replica, &spec.directory, identity, self.submission.umask) {
                Ok((pid, logs)) => {
                    self.log_quota.add(logs);
                    self.running.insert(pid.as_raw_nonzero().get(), replica.clone())
                }
                Err(error) => {
                    let name = launch::replica_name(replica);
                    let reason = format!("{name} cannot start {}: {error}", program.display());
                    return Err(StartFailure::of(&error, reason));
                }
            };
        }
        Ok(())
    }

    fn command(&self, replica: &Replica, cluster: &Cluster<'_>) -> Result<Command, String> {
        let Submission { spec, token, engine, .. } = &self.submission;
        let mut variables = spec.environment.clone();
        // For the process on this machine, not inside a container.
        let mut own: BTreeMap<String, String> = BTreeMap::new();
        variables.insert(TOKEN_VARIABLE.to_owned(), token.clone());
        variables.extend(device_variables(replica));
        if let Some(identity) = &self.submission.identity {
            let of_user = identity.variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
            own.extend(of_user);
        }
        variables.extend(replica.variables.clone());
        let is_container = matches!(replica.program, Program::Container { .. });
        let of_cluster = cluster.variables(replica, is_container).into_iter();
        variables.extend(of_cluster.map(|(name, value)| (name.to_owned(), value)));
        let mut command = match &replica.program {
            Program::Command { argv } => {
                let (program, arguments) = argv.split_first().ok_or("its command is empty")?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            Program::Container { .. } => {
                let names = variables.keys().cloned();
                let line = engine.as_ref().and_then(|engine| engine.run(spec, token, replica, names));
                line.ok_or("it is a container, and no engine was chosen")?
            }
        };
        command.envs(&own).envs(&variables).current_dir(&spec.working_directory);
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
        let first = self.submission.spec.own_replicas().first();
        let decides = first.is_some_and(|first| (first.role, first.index) == (replica.role, replica.index));
        if !decides {
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

    /// Executes requests of the submitting machine.
    fn take_orders(&mut self) -> io::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        match watch.check(&self.attempt, &self.submission.token, Instant::now()) {
            None => {}
            Some(Order::Stop(request)) => {
                if self.master_end.is_none() {
                    self.stopped.get_or_insert(StopReason::Requested);
                }
                match (request, self.phase) {
                    (StopRequest::Immediate, _) => self.phase = Phase::Killing,
                    (StopRequest::Graceful, Phase::Running) => self.terminate(Instant::now())?,
                    (StopRequest::Graceful, Phase::Terminating(_) | Phase::Killing) => {}
                }
            }
            Some(Order::End(outcome)) => {
                if self.master_end.is_none() {
                    self.lost.get_or_insert(outcome);
                }
                self.phase = Phase::Killing;
            }
        }
        Ok(())
    }

    /// Performs due transitions.
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

    /// Sends SIGTERM to every process once: to the process groups of replicas, and individually to other processes.
    fn terminate(&mut self, now: Instant) -> io::Result<()> {
        for &group in self.running.keys() {
            if let Some(pid) = Pid::from_raw(group) {
                let _ = kill_process_group(pid, Signal::TERM);
                // A suspended program handles SIGTERM only after it is continued.
                let _ = kill_process_group(pid, Signal::CONT);
            }
        }
        for process in descendants()?.into_iter().filter(|process| !self.running.contains_key(&process.group)) {
            let _ = kill_process(process.pid, Signal::TERM);
            let _ = kill_process(process.pid, Signal::CONT);
        }
        // A grace period beyond the clock's range counts as infinite.
        self.phase = match now.checked_add(self.submission.spec.grace) {
            Some(kill_at) => Phase::Terminating(kill_at),
            None => Phase::Terminating(now + Duration::from_secs(u64::from(u32::MAX))),
        };
        Ok(())
    }

    fn time_limit(&self) -> Option<Instant> {
        self.submission.spec.time_limit.and_then(|limit| self.begin.checked_add(limit))
    }

    fn record(mut self) -> io::Result<()> {
        if self.watch.is_some() && self.attempt.end()?.is_some() {
            // The attempt was given up while this process was unreachable.
            return Ok(());
        }
        self.await_own_signal()?;
        let outcome = match self.lost {
            Some(outcome) => outcome,
            None => {
                let end = self.master_end.ok_or_else(|| io::Error::other("the master was not reaped"))?;
                AttemptOutcome::Ended(ExitStatus { end, stopped: self.stopped })
            }
        };
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

/// Makes this process the leader of a new session without a terminal. A process group leader must first join another
/// group, that of its parent. If that fails, the session does not change.
fn own_session() {
    let parent_group = getppid().and_then(|parent| getpgid(Some(parent)).ok());
    if parent_group.is_some_and(|group| setpgid(None, Some(group)).is_ok()) {
        let _ = setsid();
    }
}

/// Appends a line to [`SUPERVISOR_LOG`], in the folder of the program's logs.
fn note(attempt: &Attempt, line: &str) {
    let folder = attempt.submission().ok().flatten().map(|submission| submission.spec.directory);
    let file = RootedPath::new(folder.as_deref().unwrap_or(attempt.folder()), SUPERVISOR_LOG).append();
    // There is no other place to report a failure.
    let _ = file.map(|mut file| writeln!(file, "{line}"));
}
