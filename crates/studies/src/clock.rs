//! Clocks of the service, replaceable in tests.

use std::sync::LazyLock;
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;

pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time for timestamps; may jump and go backwards.
    fn now(&self) -> Timestamp;

    /// Monotonic time for leases and time limits. Starts at the system time of its first read in the process, so values
    /// are comparable only within a process, except those of a [`SharedClock`].
    fn steady(&self) -> Timestamp;
}

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

/// Wall-clock timestamps plus a lease clock shared by several servers: synchronized periodically, and advanced by the
/// monotonic clock in between.
#[derive(Debug)]
pub struct SharedClock {
    state: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    read: Timestamp,
    at: Instant,
    /// Latest time returned; keeps the clock from going backwards.
    latest: Timestamp,
}

impl SharedClock {
    pub fn new(now: Timestamp) -> Self {
        Self { state: Mutex::new(Shared { read: now, at: Instant::now(), latest: now }) }
    }

    /// Synchronizes with `now`, the time read by the other servers.
    pub fn set(&self, now: Timestamp) {
        let mut state = self.state.lock();
        (state.read, state.at) = (now, Instant::now());
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn steady(&self) -> Timestamp {
        let mut state = self.state.lock();
        let now = state.read.checked_add(state.at.elapsed()).unwrap_or(Timestamp::MAX);
        state.latest = state.latest.max(now);
        state.latest
    }
}

/// A clock that advances only when set.
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
    pub fn new(now: Timestamp) -> Self {
        Self { times: Mutex::new(Times { now, steady: now }) }
    }

    pub fn set(&self, now: Timestamp) {
        *self.times.lock() = Times { now, steady: now };
    }

    /// Sets the wall-clock time alone, as an administrator or a time server does.
    pub fn jump(&self, now: Timestamp) {
        self.times.lock().now = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.times.lock().now
    }

    fn steady(&self) -> Timestamp {
        self.times.lock().steady
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
        // Another test in this process may have read it first.
        assert!(first.duration_since(before).abs() < jiff::SignedDuration::from_hours(1));
    }
}
