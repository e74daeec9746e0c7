//! The clocks of the service, which tests can replace.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current time, for time stamps. May jump and go backwards, like the system clock.
    fn now(&self) -> Timestamp;

    /// The time of a clock that advances by the time that passes and never jumps, for leases and time limits. It begins
    /// with the system time at which the process first read it, so its values are only comparable within a process, except those of a
    /// [`SharedClock`].
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

/// The system clock for time stamps, and for leases a clock that several servers share: its time is read now and then,
/// and advances with the monotonic clock in between.
#[derive(Debug)]
pub struct SharedClock {
    state: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    read: Timestamp,
    at: Instant,
    /// The latest time that was returned. Time does not go backwards.
    latest: Timestamp,
}

impl SharedClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { state: Mutex::new(Shared { read: now, at: Instant::now(), latest: now }) }
    }

    /// Sets the clock to `now`, the time that the other servers read.
    pub fn set(&self, now: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.read, state.at) = (now, Instant::now());
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn steady(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.read.checked_add(state.at.elapsed()).unwrap_or(Timestamp::MAX);
        state.latest = state.latest.max(now);
        state.latest
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
    fn shared_clock_follows_its_readings_and_does_not_go_backwards() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let clock = SharedClock::new(at(1000));
        assert!(clock.steady() >= at(1000));
        clock.set(at(5000));
        let ahead = clock.steady();
        assert!(ahead >= at(5000) && ahead < at(6000), "{ahead}");
        clock.set(at(2000));
        assert_eq!(clock.steady(), ahead);
        clock.set(at(7000));
        assert!(clock.steady() >= at(7000));
    }

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
