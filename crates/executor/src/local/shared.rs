//! Attempts whose supervisor runs on another machine, in a folder shared by both machines.
//!
//! An engine such as Slurm starts the supervisor (`supervise_shared`) in the attempt's folder. The submitting machine
//! reads the state from the files, and needs the engine only to learn that a supervisor will never write its end. In
//! addition to the files of module `attempt`:
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `started.json` | the first supervisor, by a hard link | claims the attempt; other supervisors do nothing |
//! | `alive.json` | the supervisor, four times per lease | changes while the supervisor lives |
//! | `engine.json` | the submitter | the submitter's record of the engine's job |
//! | `loss.json` | the submitter | the attempt counts as lost; a supervisor still alive kills its programs |
//!
//! **A lost machine is not a dead process.** An attempt is therefore reported as lost only after its supervisor has
//! written its end, or after its heartbeat has been missing for the lease. Within the lease, a supervisor that cannot
//! write to the folder kills its programs.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, AttemptOutcome, End, FORMAT, StopRequest, Submission};
use super::{check, cleanup, registry};
use crate::{ExecutorJobId, ExecutorJobSpec, ExitStatus, LossCause, Program, ProgramEnd, StopMode, StopReason};
use tunesmith_domain::JobId;
use tunesmith_files::umask_of_user;

/// Heartbeat file; changes while the supervisor lives.
pub(super) const ALIVE: &str = "alive.json";
/// File with the reason the attempt counts as lost.
pub(super) const LOSS: &str = "loss.json";
/// File with the submitter's record of the engine's job.
const ENGINE: &str = "engine.json";

/// Log of the engine's job in the folder of an attempt.
pub const ENGINE_LOG: &str = "engine.log";

/// Timing of a supervisor on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTimes {
    /// Polling interval for requests, in milliseconds.
    pub check_ms: u64,
    /// Time in milliseconds without a heartbeat after which a supervisor counts as dead, and after which a supervisor
    /// that cannot write one kills its programs.
    pub lease_ms: u64,
}

impl SharedTimes {
    pub(super) fn check(self) -> Duration {
        Duration::from_millis(self.check_ms)
    }

    /// Time without a heartbeat after which a supervisor counts as dead.
    pub fn lease(self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}

/// Content of `alive.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Number of heartbeats so far.
    pub beats: u64,
    /// Name of the supervisor's machine.
    pub host: String,
    /// Token of the attempt.
    pub token: String,
}

/// Attempts registered in one folder.
#[derive(Debug, Clone)]
pub struct SharedAttempts {
    registry: PathBuf,
    times: SharedTimes,
    log_quota_bytes: Option<u64>,
}

/// Submitted attempt.
#[derive(Debug, Clone)]
pub struct SharedAttempt {
    attempt: Attempt,
    /// Random identity of the attempt.
    pub token: String,
}

/// Progress of an attempt according to its files.
#[derive(Debug, Clone, PartialEq)]
pub enum SharedState {
    /// No supervisor has started.
    NotStarted,
    /// A supervisor has started.
    Started {
        /// Engine's name of its job, if reported.
        engine_job: Option<String>,
    },
    /// The supervisor or its program was ended by a signal that the submitter did not request. The engine's state
    /// decides whether the engine sent it.
    EndedBySignal(ExitStatus),
    Ended(ExitStatus),
    /// The attempt is lost, and none of its processes is left.
    Lost {
        /// Failure or preemption.
        cause: LossCause,
        reason: String,
    },
}

impl SharedAttempts {
    /// Attempts in the folder `registry`, with a log quota each. Does no IO.
    pub fn new(registry: PathBuf, times: SharedTimes, log_quota_bytes: Option<u64>) -> Self {
        Self { registry, times, log_quota_bytes }
    }

    /// Checks for specifications that are invalid in any engine with supervisors on other machines.
    ///
    /// # Errors
    /// The reason.
    pub fn check(spec: &ExecutorJobSpec) -> Result<(), String> {
        check(spec)?;
        if spec.replicas.iter().any(|replica| matches!(replica.program, Program::Container { .. })) {
            return Err("it is a container, which this executor does not run: start it from a command, such as \
                        `apptainer exec IMAGE PROGRAM`, in place of masterConfig.imageUri"
                .to_owned());
        }
        Ok(())
    }

    /// Durably registers `spec` under its ID. Returns the attempt, and whether this call registered it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn register(&self, spec: &ExecutorJobSpec) -> io::Result<(SharedAttempt, bool)> {
        std::fs::create_dir_all(&spec.directory)?;
        let attempt = registry::register(&self.registry, &spec.id)?;
        let _folder_lock = attempt.lock_folder()?;
        if let Some(end) = attempt.end()? {
            return Ok((SharedAttempt { attempt, token: end.token }, false));
        }
        if let Some(submission) = attempt.submission()? {
            return Ok((SharedAttempt { attempt, token: submission.token }, false));
        }
        // Random identity of the attempt, from the kernel.
        let token = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().replace('-', "");
        let submission = Submission {
            format: FORMAT,
            token: token.clone(),
            folder: attempt.folder_id()?,
            spec: spec.clone(),
            engine: None,
            identity: None,
            umask: umask_of_user(),
            log_quota_bytes: self.log_quota_bytes,
            shared: Some(self.times),
        };
        attempt.place("spec.json").replace(&serde_json::to_vec(&submission)?, true)?;
        Ok((SharedAttempt { attempt, token }, true))
    }

    /// Returns the attempt `id`, if submitted.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn find(&self, id: &ExecutorJobId) -> io::Result<Option<SharedAttempt>> {
        let Some(attempt) = registry::find(&self.registry, id)? else { return Ok(None) };
        if let Some(end) = attempt.end()? {
            return Ok(Some(SharedAttempt { attempt, token: end.token }));
        }
        let Some(submission) = attempt.submission()? else { return Ok(None) };
        let found = SharedAttempt { attempt, token: submission.token };
        let present = found.attempt.folder_id()?;
        if !submission.folder.has_inode_of(present) {
            // The engine's job, if any, belongs to the original.
            let reason = "its data folder is a copy of the one that it was submitted in".to_owned();
            found.write_end(AttemptOutcome::Lost { reason })?;
        }
        Ok(Some(found))
    }

    /// Returns the token of the attempt in folder `name`, if the attempt has ended for a known reason.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn token_of_ended(&self, name: &OsStr) -> io::Result<Option<String>> {
        let attempt = Attempt::new(self.registry.join(name));
        let Some(end) = attempt.end()? else { return Ok(None) };
        let ended = SharedAttempt { attempt, token: end.token };
        let is_over = matches!(ended.state()?, SharedState::Ended(_) | SharedState::Lost { .. });
        Ok(is_over.then_some(ended.token))
    }

    /// Forgets all runs of `job`.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn forget(&self, job: &JobId) -> io::Result<()> {
        registry::forget(&self.registry, job)
    }
}

impl SharedAttempt {
    pub fn folder(&self) -> &Path {
        self.attempt.folder()
    }

    /// Returns the progress of the attempt.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn state(&self) -> io::Result<SharedState> {
        let Some(end) = self.attempt.end()? else {
            return Ok(match self.attempt.started()? {
                Some(started) => SharedState::Started { engine_job: started.engine_job },
                None => SharedState::NotStarted,
            });
        };
        Ok(match end.outcome {
            AttemptOutcome::Ended(status) if self.may_be_engine_stop(&status)? => match self.loss()? {
                Some((cause, reason)) => SharedState::Lost { cause, reason },
                None => SharedState::EndedBySignal(status),
            },
            AttemptOutcome::Ended(status) => SharedState::Ended(status),
            AttemptOutcome::Lost { reason } => SharedState::Lost { cause: LossCause::Failure, reason },
            AttemptOutcome::Preempted { reason } => SharedState::Lost { cause: LossCause::Preemption, reason },
        })
    }

    /// Whether the engine may have ended the program: the supervisor received a signal that the submitter did not send,
    /// or a signal killed the program before the supervisor received one.
    fn may_be_engine_stop(&self, status: &ExitStatus) -> io::Result<bool> {
        let by_signal = match (&status.end, status.stopped) {
            (ProgramEnd::NotStarted(_), _) | (_, Some(StopReason::TimeLimit)) => false,
            (_, Some(StopReason::Requested)) => self.stop_requested()?.is_none(),
            (end, None) => matches!(end, ProgramEnd::Signaled(_)),
        };
        // Without the submission, the records were removed after the end was reported.
        Ok(by_signal && self.attempt.is_submitted()?)
    }

    /// Whether a supervisor has claimed the attempt.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn has_started(&self) -> io::Result<bool> {
        self.attempt.has_started()
    }

    /// Returns the specification, until the attempt is cleaned up.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn spec(&self) -> io::Result<Option<ExecutorJobSpec>> {
        Ok(self.attempt.submission()?.map(|submission| submission.spec))
    }

    /// Durably requests a stop of the programs. A graceful request does not replace an immediate one.
    ///
    /// # Errors
    /// If the request cannot be written.
    pub fn request_stop(&self, how: StopMode) -> io::Result<()> {
        let _folder_lock = self.attempt.lock_folder()?;
        if self.attempt.stop_request()? == Some(StopRequest::Immediate) {
            return Ok(());
        }
        self.attempt.write_stop_request(StopRequest::from(how))
    }

    /// Returns the recorded stop request.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stop_requested(&self) -> io::Result<Option<StopMode>> {
        Ok(self.attempt.stop_request()?.map(|request| match request {
            StopRequest::Graceful => StopMode::Graceful,
            StopRequest::Immediate => StopMode::Immediate,
        }))
    }

    /// Records the attempt as lost. A supervisor still alive kills its programs and ends the attempt.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record_loss(&self, cause: LossCause, reason: &str) -> io::Result<()> {
        let reason = reason.to_owned();
        let outcome = match cause {
            LossCause::Failure => AttemptOutcome::Lost { reason },
            LossCause::Preemption => AttemptOutcome::Preempted { reason },
        };
        self.attempt.write(LOSS, &outcome, true)
    }

    /// Returns the recorded loss.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn loss(&self) -> io::Result<Option<(LossCause, String)>> {
        Ok(self.attempt.read::<AttemptOutcome>(LOSS)?.and_then(|outcome| match outcome {
            AttemptOutcome::Lost { reason } => Some((LossCause::Failure, reason)),
            AttemptOutcome::Preempted { reason } => Some((LossCause::Preemption, reason)),
            AttemptOutcome::Ended(_) => None,
        }))
    }

    /// Ends the attempt as lost, given that none of its supervisors is alive. No effect if it has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end_as_lost(&self, cause: LossCause, reason: &str) -> io::Result<()> {
        let reason = reason.to_owned();
        self.write_end(match cause {
            LossCause::Failure => AttemptOutcome::Lost { reason },
            LossCause::Preemption => AttemptOutcome::Preempted { reason },
        })
    }

    /// Ends the attempt with `status`, given that none of its supervisors is alive. No effect if it has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end_with(&self, status: ExitStatus) -> io::Result<()> {
        self.write_end(AttemptOutcome::Ended(status))
    }

    fn write_end(&self, outcome: AttemptOutcome) -> io::Result<()> {
        let _folder_lock = self.attempt.lock_folder()?;
        if self.attempt.end()?.is_some() {
            return Ok(());
        }
        self.attempt.write_end(&End { format: FORMAT, token: self.token.clone(), outcome }, true)
    }

    /// Returns the last heartbeat of the supervisor.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn alive(&self) -> io::Result<Option<Alive>> {
        self.attempt.read(ALIVE)
    }

    /// Durably records facts about the engine's job.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_engine_record<T: Serialize>(&self, record: &T) -> io::Result<()> {
        self.attempt.write(ENGINE, record, true)
    }

    /// Returns the record of [`Self::write_engine_record`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn engine_record<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.attempt.read(ENGINE)
    }

    /// Last non-blank line in the log of the engine's job.
    pub fn engine_log_line(&self) -> Option<String> {
        const TAIL_BYTES: u64 = 4096;
        let tail = self.attempt.place(ENGINE_LOG).read_tail(TAIL_BYTES).ok()?;
        let text = String::from_utf8_lossy(&tail);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Removes the records of an ended attempt, except its end.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clean_up(&self) -> io::Result<()> {
        let _folder_lock = self.attempt.lock_folder()?;
        if self.attempt.end()?.is_none() {
            return Ok(());
        }
        let Some(submission) = self.attempt.submission()? else { return Ok(()) };
        cleanup::remove_empty_files(&submission.spec.directory)?;
        cleanup::remove_empty_files(self.attempt.folder())?;
        cleanup::remove_files(self.attempt.folder(), &[ALIVE, ENGINE])?;
        // A recorded loss determines the meaning of the end.
        if let Some((cause, reason)) = self.loss()?
            && let SharedState::Lost { .. } = self.state()?
        {
            let outcome = match cause {
                LossCause::Failure => AttemptOutcome::Lost { reason },
                LossCause::Preemption => AttemptOutcome::Preempted { reason },
            };
            self.attempt.write_end(&End { format: FORMAT, token: self.token.clone(), outcome }, true)?;
        }
        cleanup::remove_files(self.attempt.folder(), &[LOSS])?;
        cleanup::remove_records(self.attempt.folder())
    }
}

#[cfg(test)]
mod tests;
