//! Leases of running trials, since the protocol has no heartbeat: every call about a trial renews its lease.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Ends of the leases of all running trials.
#[derive(Debug)]
pub(crate) struct Leases {
    duration: Duration,
    ends: Mutex<HashMap<i64, Instant>>,
}

impl Leases {
    pub(crate) fn new(duration: Duration) -> Self {
        Self { duration, ends: Mutex::default() }
    }

    /// Begins the leases of `trials`, which an earlier server has left running.
    pub(crate) fn resume(&self, trials: impl IntoIterator<Item = i64>, now: Instant) {
        let mut ends = self.ends.lock();
        for trial in trials {
            ends.entry(trial).or_insert(now + self.duration);
        }
    }

    /// Pause between two looks for expired leases: a trial fails at most this much too late.
    pub(crate) fn interval(&self) -> Duration {
        (self.duration / 4).min(Duration::from_secs(10))
    }

    /// Begins the lease of a trial that runs now.
    pub(crate) fn begin(&self, trial: i64, now: Instant) {
        self.ends.lock().insert(trial, now + self.duration);
    }

    /// Renews the lease of a trial, if it runs.
    pub(crate) fn renew(&self, trial: i64, now: Instant) {
        if let Some(end) = self.ends.lock().get_mut(&trial) {
            *end = now + self.duration;
        }
    }

    /// Ends the lease of a trial that no longer runs.
    pub(crate) fn end(&self, trial: i64) {
        self.ends.lock().remove(&trial);
    }

    pub(crate) fn is_expired(&self, trial: i64, now: Instant) -> bool {
        self.ends.lock().get(&trial).is_some_and(|end| *end <= now)
    }

    /// Trials whose leases have expired. They remain until [`Self::end`].
    pub(crate) fn expired(&self, now: Instant) -> Vec<i64> {
        self.ends.lock().iter().filter(|(_, end)| **end <= now).map(|(trial, _)| *trial).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_renew_the_leases_of_running_trials() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let leases = Leases::new(Duration::from_secs(10));
        leases.resume([1], at(0));
        leases.begin(2, at(4));
        leases.resume([2], at(0));
        // Not a running trial.
        leases.renew(3, at(4));
        assert_eq!(leases.expired(at(9)), [0; 0]);
        assert_eq!(leases.expired(at(10)), [1]);
        leases.renew(1, at(11));
        assert_eq!(leases.expired(at(14)), [2]);
        leases.end(2);
        assert_eq!(leases.expired(at(20)), [0; 0]);
        assert_eq!(leases.expired(at(21)), [1]);
    }

    #[test]
    fn leases_are_examined_several_times_in_their_duration() {
        let interval = |seconds| Leases::new(Duration::from_secs(seconds)).interval();
        assert_eq!(interval(2), Duration::from_millis(500));
        assert_eq!(interval(3600), Duration::from_secs(10));
    }
}
