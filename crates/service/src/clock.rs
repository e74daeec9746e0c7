//! The clocks of the service, which tests can replace.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current time, for time stamps. May jump and go backwards, like the system clock.
    fn now(&self) -> Timestamp;

    /// The time of a clock that advances by the time that passes and never jumps, for leases and time limits. It begins
    /// with the system time at which the process first read it, so its values are only comparable within a process.
    fn steady(&self) -> Timestamp;
}

/// The system clock, and the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn steady(&self) -> Timestamp {
        static ANCHOR: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (Timestamp::now(), Instant::now()));
        let (start, begin) = *ANCHOR;
        start.checked_add(begin.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// A clock that does not advance until it is set.
#[derive(Debug)]
pub struct ManualClock {
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    now: Timestamp,
    steady: Timestamp,
}

impl ManualClock {
    /// A clock at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { times: Mutex::new(Times { now, steady: now }) }
    }

    /// Sets both times.
    pub fn set(&self, now: Timestamp) {
        *self.times() = Times { now, steady: now };
    }

    /// Sets the system time alone, as an administrator or a time server does.
    pub fn jump(&self, now: Timestamp) {
        self.times().now = now;
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.times().now
    }

    fn steady(&self) -> Timestamp {
        self.times().steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_time_advances_and_begins_with_the_system_time() {
        let before = Timestamp::now();
        let first = SystemClock.steady();
        let second = SystemClock.steady();
        assert!(first <= second);
        // Another test of this process may have read it first.
        assert!(first.duration_since(before).abs() < jiff::SignedDuration::from_hours(1));
    }
}
