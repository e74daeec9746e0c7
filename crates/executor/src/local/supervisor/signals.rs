//! Signals received by a supervisor, and its sleep between them.

use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{getpid, set_child_subreaper};

use super::{KILL_INTERVAL, Phase, Supervisor, note};
use crate::{ProgramEnd, StopReason};

/// Maximum delay between an engine's signals to two processes; a guess.
const SIGNAL_DELAY: Duration = Duration::from_millis(200);

impl Supervisor {
    /// Waits for a signal or the next due transition.
    pub(super) fn sleep(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let timeout = match self.phase {
            Phase::Running => self.time_limit().map(|limit| limit.saturating_duration_since(now)),
            Phase::Terminating(kill_at) => Some(kill_at.saturating_duration_since(now)),
            Phase::Killing => Some(KILL_INTERVAL),
        };
        let orders = self.watch.as_ref().map(|watch| watch.until_check(now));
        let timeout = [timeout, self.log_quota.until_check(now), orders].into_iter().flatten().min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let stdout = io::stdout();
        // Without requested events, only the closing of a pipe's other end is reported.
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

    pub(super) fn take_signals(&mut self) -> io::Result<()> {
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

    /// If a signal ended the program, waits for this process to receive one. An engine signals all processes of an
    /// attempt, possibly the program first. SIGKILL ends this process, so that the attempt is lost, not failed.
    pub(super) fn await_own_signal(&mut self) -> io::Result<()> {
        let of_engines = [Caught::SIGTERM as i32, Caught::SIGKILL as i32];
        let died = matches!(self.master_end, Some(ProgramEnd::Signaled(signal)) if of_engines.contains(&signal));
        if self.watch.is_none() || !died || self.stopped.is_some() {
            return Ok(());
        }
        let deadline = Instant::now() + SIGNAL_DELAY;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Some(signal) = self.signals.read_signal()? {
                if signal.ssi_signo == Caught::SIGTERM as u32 {
                    self.stopped = Some(StopReason::Requested);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Makes this process the sub-reaper of its programs and queues stop signals as readable events. Requests before that
/// are in `stop.json`.
pub(super) fn queue_signals() -> io::Result<SignalFd> {
    let mask: SigSet = [Caught::SIGTERM, Caught::SIGINT, Caught::SIGUSR1, Caught::SIGCHLD].into_iter().collect();
    mask.thread_block()?;
    set_child_subreaper(Some(getpid()))?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}
