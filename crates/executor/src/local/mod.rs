//! Programs on this machine. Each attempt has its own supervisor process, which survives the server.
//!
//! Module `attempt` documents the files through which submitter and supervisor communicate, `supervisor` the process.
//!
//! Limitation: if the supervisor itself is killed by SIGKILL, a process that has both detached itself from its parents
//! and cleared its environment is not found.

mod addresses;
mod attempt;
mod cleanup;
mod containers;
mod environment;
mod identity;
mod launch;
mod log_quota;
mod processes;
mod registry;
pub mod shared;
mod shared_watch;
mod supervisor;
mod system;
mod watchdog;

use std::fs;
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{PidfdFlags, Signal, pidfd_open};

use tunesmith_domain::JobId;

use self::attempt::{Attempt, AttemptOutcome, End, FORMAT, StopRequest, Submission};
use self::watchdog::{KILL_TIMEOUT, Supervisor, Watchdog};
use super::{AttemptLocation, Placement, ReplicaNode, host_name};
use super::{
    Executor, ExecutorError, ExecutorJobId, ExecutorJobSpec, ExecutorJobState, ExitStatus, FolderFailure, LossCause,
    Program, ProgramEnd, Replica, Role, StopMode, StopReason, create_folders,
};
use tunesmith_files::umask_of_user;

pub use self::containers::Engine;
pub use self::environment::{
    BadVariablePattern, PASS_ENVIRONMENT, PASSED_NAMES, PASSED_PREFIXES, PassVariableError, PassedEnvironment,
};
pub use self::identity::{Identities, Identity, IdentityError};
pub(crate) use self::launch::replica_name;
pub use self::launch::{confine, limit, log_files, run_as};
pub use self::supervisor::{SUPERVISOR_LOG, supervise_if_asked};

/// First argument of the supervisor program; the second is the attempt's folder.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// First argument of the supervisor program on another machine; the second is the attempt's folder.
pub const SUPERVISE_SHARED_ARGUMENT: &str = "__supervise-shared";

/// Polling interval for the process ID of a starting supervisor.
const STARTING_TICK: Duration = Duration::from_millis(10);

/// User ID of this process.
pub fn user_id() -> u32 {
    rustix::process::getuid().as_raw()
}

#[derive(Debug, Clone, Default)]
pub struct LocalSettings {
    /// Program that calls [`supervise_if_asked`].
    pub supervisor: PathBuf,
    /// Absolute path of the registry, with one folder per attempt for the files of its supervisor. Created on demand.
    /// Executors with a common registry find each other's jobs. The folder may be moved, together with its parent.
    pub registry: PathBuf,
    /// Options of docker or podman before the subcommand.
    pub container_options: Vec<String>,
    /// Options of docker or podman after `run`.
    pub container_run_options: Vec<String>,
    /// Variables of this process that programs inherit.
    pub environment: PassedEnvironment,
    /// Users of the programs.
    pub identities: Identities,
    /// Maximum disk space of the logs of one attempt in bytes; `None` for no limit.
    pub log_quota_bytes: Option<u64>,
    /// Whether supervisors end their programs, with the grace period, when this process exits.
    pub ends_with_this_process: bool,
}

/// Runs programs on this machine.
#[derive(Debug, Clone)]
pub struct LocalExecutor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: LocalSettings,
    /// Detected on first use.
    engine: OnceLock<Option<Engine>>,
    watchdog: Watchdog,
    /// Pipe whose read end is the supervisors' standard output, so that they detect the exit of this process.
    lifeline: OnceLock<(PipeReader, PipeWriter)>,
}

impl LocalExecutor {
    /// Does no IO.
    pub fn new(settings: LocalSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            engine: OnceLock::new(),
            watchdog: Watchdog::new(),
            lifeline: OnceLock::new(),
        }))
    }

    /// Runs `work` on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        id: &ExecutorJobId,
        work: impl FnOnce(&Inner) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, ExecutorError> {
        let inner = Arc::clone(&self.0);
        let result = tokio::task::spawn_blocking(move || work(&inner)).await;
        result.unwrap_or_else(|error| Err(Failure::Io(io::Error::other(error)))).map_err(|failure| match failure {
            Failure::Io(source) => ExecutorError::Unreachable { id: id.clone(), source },
            Failure::Rejected(reason) => ExecutorError::Rejected { id: id.clone(), reason },
        })
    }
}

/// [`ExecutorError`] without the job.
enum Failure {
    Io(io::Error),
    Rejected(String),
}

impl From<FolderFailure> for Failure {
    fn from(failure: FolderFailure) -> Self {
        match failure {
            FolderFailure::OfJob(reason) => Self::Rejected(reason),
            FolderFailure::OfService(error) => Self::Io(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn runs_containers(&self, _: &Placement) -> bool {
        let inner = Arc::clone(&self.0);
        // The search runs programs. If it panics, the start finds the problem.
        tokio::task::spawn_blocking(move || inner.engine().is_some()).await.unwrap_or(true)
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        let id = spec.id.clone();
        let spec = spec.clone();
        self.blocking(&id, move |inner| inner.submit(spec)).await
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inner| inner.state(&known)).await
    }

    async fn changed(&self, id: &ExecutorJobId, known: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        let mut requests = self.0.watchdog.requests();
        let mut seen = None;
        loop {
            requests.mark_unchanged();
            let (watched_id, last) = (id.clone(), seen.take());
            let (state, watched) = self.blocking(id, move |inner| inner.look(&watched_id, last)).await?;
            if !state.is_open() {
                self.0.watchdog.forget(id);
                return Ok(state);
            }
            if state != *known {
                return Ok(state);
            }
            let unreachable = |source| ExecutorError::Unreachable { id: id.clone(), source };
            match watched {
                Some(watched) => {
                    let process = watched.supervisor.process.try_clone().map_err(unreachable)?;
                    let process = system::watch(process).map_err(unreachable)?;
                    tokio::select! {
                        ended = process.readable() => drop(ended.map_err(unreachable)?),
                        // The sender lives as long as this executor.
                        Ok(()) = requests.changed() => {}
                        () = tokio::time::sleep(watched.next_check) => {}
                    }
                    seen = Some(watched);
                }
                None => tokio::time::sleep(STARTING_TICK).await,
            }
        }
    }

    async fn stop(&self, id: &ExecutorJobId, how: StopMode) -> Result<(), ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inner| Ok(inner.stop(&known, how)?)).await
    }

    async fn clean_up(&self, id: &ExecutorJobId) -> Result<(), ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inner| Ok(inner.clean_up(&known)?)).await
    }

    async fn submitted(&self, id: &ExecutorJobId) -> Result<Option<Vec<Replica>>, ExecutorError> {
        let known = id.clone();
        self.blocking(id, move |inner| {
            let Some(attempt) = inner.find(&known)? else { return Ok(None) };
            Ok(attempt.submission()?.map(|submission| submission.spec.replicas))
        })
        .await
    }

    async fn nodes(&self, id: &ExecutorJobId) -> Result<AttemptLocation, ExecutorError> {
        Ok(AttemptLocation { nodes: vec![ReplicaNode::of_all(host_name())], ..AttemptLocation::from(id) })
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        let (inner, job) = (Arc::clone(&self.0), job.clone());
        tokio::task::spawn_blocking(move || registry::forget(&inner.settings.registry, &job)).await?
    }
}

impl Inner {
    fn submit(&self, spec: ExecutorJobSpec) -> Result<(), Failure> {
        check(&spec).map_err(Failure::Rejected)?;
        if !spec.placement.is_empty() {
            let reason = "its placement names a queue or options, which this machine does not have";
            return Err(Failure::Rejected(reason.to_owned()));
        }
        let is_container = |program: &Program| matches!(program, Program::Container { .. });
        let engine = if spec.own_replicas().iter().any(|replica| is_container(&replica.program)) {
            Some(self.engine().ok_or_else(|| Failure::Rejected(containers::NONE_FOUND.to_owned()))?.clone())
        } else {
            None
        };
        let has_user = self.settings.identities.of(spec.id.job.parts().0).is_some();
        create_folders(&spec, has_user)?;
        let attempt = registry::register(&self.settings.registry, &spec.id)?;
        let _folder_lock = attempt.lock_folder()?;
        if attempt.end()?.is_some() || attempt.has_started()? {
            return Ok(());
        }
        let Some(lock) = attempt.try_lock()? else { return Ok(()) };
        lock.set_len(0)?;
        if attempt.submission()?.is_none() {
            // Random identity of the attempt, from the kernel.
            let token = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().replace('-', "");
            let identity = self.settings.identities.of(spec.id.job.parts().0).cloned();
            if let Some(identity) = &identity {
                self.give_folders(&spec, identity)?;
            }
            let (umask, log_quota_bytes) = (umask_of_user(), self.settings.log_quota_bytes);
            attempt.write_submission(&Submission {
                format: FORMAT,
                token,
                folder: attempt.folder_id()?,
                spec,
                engine,
                identity,
                umask,
                log_quota_bytes,
                shared: None,
            })?;
        }
        let mut command = tokio::process::Command::new(&self.settings.supervisor);
        command.arg(SUPERVISE_ARGUMENT).arg(attempt.folder());
        command.env_clear().envs(self.settings.environment.of_this_process());
        // Own process group, which Ctrl-C in a terminal does not reach. The supervisor then creates its own session.
        command.process_group(0).stdin(lock.try_clone()?).stdout(self.lifeline()?).stderr(Stdio::null());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // No process was started, so the attempt must not be found.
                fs::remove_file(attempt.folder().join("spec.json"))?;
                let message = format!("cannot start the supervisor {}: {error}", self.settings.supervisor.display());
                return Err(Failure::Io(io::Error::new(error.kind(), message)));
            }
        };
        if let Some(pid) = child.id() {
            Attempt::write_pid(&lock, pid)?;
        }
        // The wait only prevents a zombie; the end is read from `exit.json`.
        tokio::spawn(async move { child.wait().await });
        Ok(())
    }

    fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, Failure> {
        let Some(attempt) = self.find(id)? else { return Ok(ExecutorJobState::Unknown) };
        if let Some(end) = attempt.end()? {
            return Ok(state_of(end.outcome));
        }
        if !attempt.is_submitted()? {
            return Ok(ExecutorJobState::Unknown);
        }
        let _folder_lock = attempt.lock_folder()?;
        // No supervisor can start while this lock is held.
        let Some(_lock) = attempt.try_lock()? else { return Ok(ExecutorJobState::Running) };
        if let Some(end) = attempt.end()? {
            return Ok(state_of(end.outcome));
        }
        Ok(state_of(record_loss(&attempt)?))
    }

    /// Returns the state of `id` and, while it runs, its supervisor, which is checked. `last` is the result of the
    /// previous call.
    fn look(
        &self,
        id: &ExecutorJobId,
        last: Option<WatchedSupervisor>,
    ) -> Result<(ExecutorJobState, Option<WatchedSupervisor>), Failure> {
        let Some(attempt) = self.find(id)? else { return Ok((gone(last)?, None)) };
        // Open the handle first: if the job is still running afterwards, the handle is the supervisor's, not that of a
        // later process with the same ID.
        let supervisor = supervisor(&attempt)?;
        let state = match self.state(id)? {
            ExecutorJobState::Unknown => gone(last)?,
            state => state,
        };
        let (ExecutorJobState::Running, Some(supervisor)) = (&state, supervisor) else { return Ok((state, None)) };
        let Some(submission) = attempt.submission()? else { return Ok((state, None)) };
        let next_check = self.watchdog.check(id, &attempt, &submission, &supervisor)?;
        Ok((state, Some(WatchedSupervisor { supervisor, token: submission.token, next_check })))
    }

    fn stop(&self, id: &ExecutorJobId, how: StopMode) -> io::Result<()> {
        let Some(attempt) = self.find(id)? else { return Ok(()) };
        if attempt.end()?.is_some() || !attempt.is_submitted()? {
            return Ok(());
        }
        self.watchdog.note_stop(id, how);
        let _folder_lock = attempt.lock_folder()?;
        // For a supervisor that does not handle signals yet, or that the signal kills before it has started a program.
        let written = attempt.write_stop_request(StopRequest::from(how));
        let supervisor = supervisor(&attempt)?;
        if attempt.try_lock()?.is_some() {
            return written;
        }
        // A supervisor that has not written its process ID yet reads the request after doing so.
        let Some(supervisor) = supervisor else { return written };
        supervisor.signal(match how {
            StopMode::Graceful => Signal::TERM,
            StopMode::Immediate => Signal::USR1,
        })?;
        // A stopped process handles signals only after it is continued.
        supervisor.signal(Signal::CONT)
    }

    fn clean_up(&self, id: &ExecutorJobId) -> io::Result<()> {
        let Some(attempt) = self.find(id)? else { return Ok(()) };
        let _folder_lock = attempt.lock_folder()?;
        if attempt.end()?.is_none() {
            return Ok(());
        }
        // Without a submission, an earlier call has removed the files.
        let Some(submission) = attempt.submission()? else { return Ok(()) };
        cleanup::remove_empty_files(&submission.spec.directory)?;
        cleanup::remove_records(attempt.folder())
    }

    fn find(&self, id: &ExecutorJobId) -> io::Result<Option<Attempt>> {
        registry::find(&self.settings.registry, id)
    }

    /// Gives the programs of `identity` write access to the metric file, and to nothing else in the attempt's folder.
    fn give_folders(&self, spec: &ExecutorJobSpec, identity: &Identity) -> io::Result<()> {
        let metrics = spec.directory.join("metrics");
        fs::create_dir_all(&metrics)?;
        let root = self.settings.registry.parent().unwrap_or(&self.settings.registry);
        identity.give(&metrics, root)
    }

    /// Standard output of supervisors.
    fn lifeline(&self) -> io::Result<Stdio> {
        if !self.settings.ends_with_this_process {
            return Ok(Stdio::null());
        }
        if self.lifeline.get().is_none() {
            // A concurrent call may have set its own pipe first.
            let _ = self.lifeline.set(io::pipe()?);
        }
        match self.lifeline.get() {
            Some((reader, _)) => Ok(reader.try_clone()?.into()),
            None => Err(io::Error::other("the pipe to supervisors is missing")),
        }
    }

    fn engine(&self) -> Option<&Engine> {
        let find = || Engine::find(&self.settings.container_options, &self.settings.container_run_options);
        self.engine.get_or_init(find).as_ref()
    }
}

/// Supervisor that was alive at the last check.
struct WatchedSupervisor {
    supervisor: Supervisor,
    /// Token of its processes.
    token: String,
    next_check: Duration,
}

/// Returns a handle of the supervisor process of `attempt` at the time of the call, if any.
fn supervisor(attempt: &Attempt) -> io::Result<Option<Supervisor>> {
    let Some(pid) = attempt.supervisor_pid() else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => Ok(Some(Supervisor { pid, process })),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// State of an attempt without files: lost if the last check found a supervisor, whose processes are then killed.
fn gone(last: Option<WatchedSupervisor>) -> io::Result<ExecutorJobState> {
    let Some(last) = last else { return Ok(ExecutorJobState::Unknown) };
    watchdog::kill(&last.token, &last.supervisor)?;
    let reason = "the files of its supervisor were removed while it ran".to_owned();
    Ok(ExecutorJobState::Lost { cause: LossCause::Failure, reason })
}

/// Checks for specifications that are invalid on any machine.
fn check(spec: &ExecutorJobSpec) -> Result<(), String> {
    if !spec.directory.is_absolute() {
        return Err(format!("its folder {} is not an absolute path", spec.directory.display()));
    }
    if spec.replicas.first().is_none_or(|replica| replica.role != Role::Master) {
        return Err("its first replica is not a master".to_owned());
    }
    if let Some(part) = &spec.part
        && (spec.own_replicas().is_empty() || part.addresses.len() != spec.replicas.len())
    {
        return Err(format!(
            "its part is the replica {} with {} addresses, and it has {} replicas",
            part.replica,
            part.addresses.len(),
            spec.replicas.len()
        ));
    }
    for replica in spec.own_replicas() {
        match &replica.program {
            Program::Command { argv } if argv.is_empty() => return Err("its command is empty".to_owned()),
            Program::Container { image, .. } if image.is_empty() => return Err("its image has no name".to_owned()),
            Program::Command { .. } | Program::Container { .. } => {}
        }
    }
    Ok(())
}

/// Ends an attempt without a supervisor: kills its remaining processes, then records the end. The caller must hold both
/// locks.
fn record_loss(attempt: &Attempt) -> io::Result<AttemptOutcome> {
    let submission = attempt.submission()?;
    let token = submission.as_ref().map(|submission| submission.token.clone()).unwrap_or_default();
    let started = attempt.has_started()?;
    let present = attempt.folder_id()?;
    if submission.as_ref().is_some_and(|submission| submission.folder != present) {
        // Processes with this token belong to the original, if there is one.
        let outcome = AttemptOutcome::Lost {
            reason: "it does not run, and its data folder is a copy or was mounted anew".to_owned(),
        };
        attempt.write_end(&End { format: FORMAT, token, outcome: outcome.clone() }, true)?;
        return Ok(outcome);
    }
    if let Some(submission) = &submission
        && started
    {
        processes::kill_all_with_token(&token, KILL_TIMEOUT)?;
        if let Some(engine) = &submission.engine {
            engine.remove(&submission.spec, &token, submission.identity.as_ref());
        }
    }
    let outcome = match (started, attempt.stop_request()?) {
        (false, Some(_)) => AttemptOutcome::Ended(ExitStatus {
            end: ProgramEnd::NotStarted("it was stopped before it started".to_owned()),
            stopped: Some(StopReason::Requested),
        }),
        (false, None) => AttemptOutcome::Lost { reason: "its supervisor died before the program started".to_owned() },
        (true, _) => AttemptOutcome::Lost { reason: "its supervisor died while the program ran".to_owned() },
    };
    attempt.write_end(&End { format: FORMAT, token, outcome: outcome.clone() }, true)?;
    Ok(outcome)
}

fn state_of(outcome: AttemptOutcome) -> ExecutorJobState {
    match outcome {
        AttemptOutcome::Ended(status) => ExecutorJobState::Ended(status),
        AttemptOutcome::Lost { reason } => ExecutorJobState::Lost { cause: LossCause::Failure, reason },
        AttemptOutcome::Preempted { reason } => ExecutorJobState::Lost { cause: LossCause::Preemption, reason },
    }
}
