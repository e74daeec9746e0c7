//! Watchdog for supervisors.
//!
//! A program runs as the same user as its supervisor, and can stop it (SIGSTOP), keep it from running or remove its
//! files. The process that waits for an attempt therefore checks the supervisor periodically. It continues a stopped
//! supervisor, and ends the attempt itself when a stop request or the time limit is overdue.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::sync::watch;

use super::attempt::{Attempt, AttemptOutcome, End, FORMAT, Submission};
use super::processes;
use crate::{ExecutorJobId, ExitStatus, ProgramEnd, StopMode, StopReason};

/// Interval between two checks of a supervisor.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Delay beyond the grace period at which a supervisor is overdue; a guess, far more than it needs to kill processes.
const LATE: Duration = Duration::from_secs(5);

/// Additional time to remove containers.
const LATE_CONTAINERS: Duration = Duration::from_secs(30);

/// Number of times a stopped supervisor is continued before its attempt counts as lost.
const MAX_CONTINUATIONS: u32 = 3;

/// Maximum time to kill the processes of an attempt.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Supervisors that this process waits for.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Stop requests and number of continuations per attempt.
    attempts: Mutex<HashMap<ExecutorJobId, Watched>>,
    /// Changes with every stop request.
    requests: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    graceful_since: Option<Instant>,
    immediate_since: Option<Instant>,
    continuations: u32,
}

/// Living supervisor.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) pid: Pid,
    pub(super) process: OwnedFd,
}

impl Supervisor {
    /// Sends `signal`. Sending to an ended process is not an error.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.process, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end, at most `timeout`.
    fn await_end(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).ok();
        poll(&mut [PollFd::new(&self.process, PollFlags::IN)], timeout.as_ref())?;
        Ok(())
    }
}

impl Watchdog {
    pub(super) fn new() -> Self {
        Self { attempts: Mutex::default(), requests: watch::Sender::new(()) }
    }

    /// Returns a receiver for notifications of stop requests.
    pub(super) fn requests(&self) -> watch::Receiver<()> {
        self.requests.subscribe()
    }

    /// Records a stop request.
    pub(super) fn note_stop(&self, id: &ExecutorJobId, how: StopMode) {
        let mut attempts = self.attempts.lock();
        let watched = attempts.entry(id.clone()).or_default();
        match how {
            StopMode::Graceful => watched.graceful_since.get_or_insert_with(Instant::now),
            StopMode::Immediate => watched.immediate_since.get_or_insert_with(Instant::now),
        };
        drop(attempts);
        self.requests.send_replace(());
    }

    /// Forgets an ended attempt.
    pub(super) fn forget(&self, id: &ExecutorJobId) {
        self.attempts.lock().remove(id);
    }

    /// Checks the living `supervisor` of an attempt, and ends the attempt if overdue. Returns the time until the next
    /// check.
    pub(super) fn check(
        &self,
        id: &ExecutorJobId,
        attempt: &Attempt,
        submission: &Submission,
        supervisor: &Supervisor,
    ) -> io::Result<Duration> {
        let watched = self.attempts.lock().get(id).copied().unwrap_or_default();
        let late = if submission.engine.is_some() { LATE + LATE_CONTAINERS } else { LATE };
        let stopped = stop_deadline(&watched, submission.spec.grace, late).map(|at| (at, StopReason::Requested));
        let started = attempt.started()?.map(|started| started.monotonic_ms);
        let limit = submission.spec.time_limit.zip(started).and_then(|(limit, started)| {
            let begin = Instant::now().checked_sub(monotonic().saturating_sub(Duration::from_millis(started)))?;
            Some((
                begin.checked_add(limit)?.checked_add(submission.spec.grace)?.checked_add(late)?,
                StopReason::TimeLimit,
            ))
        });
        let due = stopped.into_iter().chain(limit).min_by_key(|(at, _)| *at);
        let now = Instant::now();
        if let Some((_, reason)) = due.filter(|(at, _)| *at <= now) {
            tracing::error!(executor.job = %id, supervisor.pid = supervisor.pid.as_raw_nonzero(), ?reason,
                "the supervisor of an attempt did not end it in time, and is killed");
            let status = ExitStatus { end: ProgramEnd::Signaled(9), stopped: Some(reason) };
            end(attempt, submission, supervisor, AttemptOutcome::Ended(status))?;
            return Ok(Duration::ZERO);
        }
        if processes::is_stopped(supervisor.pid) {
            let mut attempts = self.attempts.lock();
            let watched = attempts.entry(id.clone()).or_default();
            watched.continuations += 1;
            let continuations = watched.continuations;
            drop(attempts);
            if continuations > MAX_CONTINUATIONS {
                let reason = format!("its supervisor was stopped by a signal {continuations} times");
                tracing::error!(executor.job = %id, "{reason}; it is killed");
                end(attempt, submission, supervisor, AttemptOutcome::Lost { reason })?;
                return Ok(Duration::ZERO);
            }
            tracing::warn!(executor.job = %id, "the supervisor of an attempt was stopped by a signal; it is continued");
            supervisor.signal(Signal::CONT)?;
        }
        Ok(due.map_or(CHECK_INTERVAL, |(at, _)| at.saturating_duration_since(now).min(CHECK_INTERVAL)))
    }
}

/// Deadline for the end of an attempt after its stop requests.
fn stop_deadline(watched: &Watched, grace: Duration, late: Duration) -> Option<Instant> {
    let graceful = watched.graceful_since.and_then(|since| since.checked_add(grace)?.checked_add(late));
    let immediate = watched.immediate_since.and_then(|since| since.checked_add(late));
    graceful.into_iter().chain(immediate).min()
}

/// Kills the supervisor and all processes of an attempt, and records `outcome` unless the supervisor recorded another.
fn end(attempt: &Attempt, submission: &Submission, supervisor: &Supervisor, outcome: AttemptOutcome) -> io::Result<()> {
    kill(&submission.token, supervisor)?;
    if let Some(engine) = &submission.engine {
        engine.remove(&submission.spec, &submission.token, submission.identity.as_ref());
    }
    if attempt.end()?.is_some() {
        return Ok(());
    }
    attempt.write_end(&End { format: FORMAT, token: submission.token.clone(), outcome }, true)
}

/// Kills a supervisor and its programs. Descendants are killed first, while they are still known as such.
pub(super) fn kill(token: &str, supervisor: &Supervisor) -> io::Result<()> {
    for process in processes::descendants_of(supervisor.pid)? {
        // The process may have ended already.
        let _ = rustix::process::kill_process(process.pid, Signal::KILL);
    }
    supervisor.signal(Signal::KILL)?;
    supervisor.await_end(KILL_TIMEOUT)?;
    processes::kill_all_with_token(token, KILL_TIMEOUT)
}

/// Time on the system's monotonic clock, common to all processes until the next boot.
pub(super) fn monotonic() -> Duration {
    // The call fails only for clocks that do not exist.
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_is_overdue_after_the_earlier_of_its_deadlines() {
        let now = Instant::now();
        let after = |secs| Some(now + Duration::from_secs(secs));
        let deadline = |graceful_since, immediate_since| {
            let watched = Watched { graceful_since, immediate_since, continuations: 0 };
            stop_deadline(&watched, Duration::from_secs(30), Duration::from_secs(5))
        };
        assert_eq!(deadline(None, None), None);
        assert_eq!(deadline(Some(now), None), after(35));
        assert_eq!(deadline(Some(now), after(2)), after(7));
        assert_eq!(deadline(Some(now), after(60)), after(35));
    }
}
