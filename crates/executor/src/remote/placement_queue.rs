//! Queue in which attempts with several replicas obtain their slots.
//!
//! Two such attempts placed at the same time could each hold some slots and wait for the other's: a deadlock. Therefore
//! only one is placed at a time. If it cannot get all its slots in time, because other work holds them, it releases
//! those it has, and its next attempt backs off before requesting them again.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use crate::ExecutorJobId;
use parking_lot::Mutex;
use tunesmith_domain::{JobId, TrialId};

/// Maximum time for placing an attempt.
pub const PLACEMENT_TIMEOUT: Duration = Duration::from_secs(300);

/// Divisor of the placement timeout for the first back-off. The back-off doubles each time, up to the timeout. A guess.
const PAUSES_PER_TIMEOUT: u32 = 10;

/// Time without a poll after which an attempt no longer blocks others: its run has ended or failed.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Attempts of one executor that are being placed.
#[derive(Debug)]
pub(super) struct PlacementQueue {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In order of submission.
    entries: Vec<Entry>,
    /// Runs whose last attempt released its slots.
    pauses: HashMap<(JobId, Option<TrialId>), Pause>,
}

#[derive(Debug)]
struct Entry {
    id: ExecutorJobId,
    /// Time of the last poll.
    seen: Instant,
    /// Start of placement.
    since: Option<Instant>,
}

#[derive(Debug)]
struct Pause {
    /// Number of attempts that released their slots.
    tries: u32,
    until: Instant,
    /// Upper bound of the back-off.
    longest: Duration,
    /// Slots the last attempt had.
    reason: String,
}

/// Position in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Being placed, since this time.
    First(Instant),
    /// Waiting, for this reason.
    Behind(String),
}

impl PlacementQueue {
    /// Queue whose attempts release their slots after `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default() }
    }

    /// Time after which an attempt releases its slots.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether `id` was entered, and has neither all of its slots nor ended.
    pub(super) fn knows(&self, id: &ExecutorJobId) -> bool {
        self.state.lock().entries.iter().any(|entry| entry.id == *id)
    }

    /// Enters `id`; with `has_started`, it may already have slots. No effect if entered before.
    pub(super) fn enter(&self, id: &ExecutorJobId, has_started: bool, now: Instant) {
        let mut state = self.state.lock();
        if !state.entries.iter().any(|entry| entry.id == *id) {
            state.entries.push(Entry { id: id.clone(), seen: now, since: has_started.then_some(now) });
        }
    }

    /// Current position of `id`, which was entered.
    pub(super) fn position(&self, id: &ExecutorJobId, now: Instant) -> Position {
        let mut state = self.state.lock();
        let State { entries, pauses } = &mut *state;
        let pause = |id: &ExecutorJobId| pauses.get(&key(id)).filter(|pause| pause.until > now);
        let mut ahead = None;
        let mut found = None;
        for (index, entry) in entries.iter_mut().enumerate() {
            if entry.id == *id {
                entry.seen = now;
                found = Some(index);
            } else if now.duration_since(entry.seen) < FORGOTTEN
                // Attempts being placed take precedence; of the others, the earliest without a back-off.
                && (entry.since.is_some() || (found.is_none() && ahead.is_none() && pause(&entry.id).is_none()))
            {
                ahead = Some(entry.id.clone());
            }
        }
        let entry = found.and_then(|index| entries.get_mut(index));
        if let Some(since) = entry.as_ref().and_then(|entry| entry.since) {
            return Position::First(since);
        }
        if let Some(pause) = pause(id) {
            return Position::Behind(format!(
                "{}; it tries again within {} s",
                pause.reason,
                pause.longest.as_secs_f64()
            ));
        }
        if let Some(ahead) = ahead {
            let reason = "attempts with several replicas get their places one after the other";
            return Position::Behind(format!("{reason}, and {ahead} comes first"));
        }
        if let Some(entry) = entry {
            entry.since = Some(now);
        }
        Position::First(now)
    }

    pub(super) fn placed(&self, id: &ExecutorJobId) {
        let mut state = self.state.lock();
        state.entries.retain(|entry| entry.id != *id);
        state.pauses.remove(&key(id));
    }

    pub(super) fn ended(&self, id: &ExecutorJobId) {
        self.state.lock().entries.retain(|entry| entry.id != *id);
    }

    /// Records that `id` releases its slots for `reason`.
    pub(super) fn gave_back(&self, id: &ExecutorJobId, reason: &str, now: Instant) {
        let mut state = self.state.lock();
        state.entries.retain(|entry| entry.id != *id);
        let tries = state.pauses.get(&key(id)).map_or(0, |pause| pause.tries);
        let longest = (self.timeout / PAUSES_PER_TIMEOUT).saturating_mul(1 << tries.min(16)).min(self.timeout);
        // Random jitter between half and all of the back-off, so that two servers do not collide again.
        let random = RandomState::new().hash_one(tries) as f64 / u64::MAX as f64;
        let until = now + longest.mul_f64(0.5 + random / 2.0);
        state.pauses.insert(key(id), Pause { tries: tries + 1, until, longest, reason: reason.to_owned() });
    }

    /// Forgets the runs of `job`.
    pub(super) fn forget(&self, job: &JobId) {
        let mut state = self.state.lock();
        state.entries.retain(|entry| entry.id.job != *job);
        state.pauses.retain(|(of, _), _| of != job);
    }
}

fn key(id: &ExecutorJobId) -> (JobId, Option<TrialId>) {
    (id.job.clone(), id.trial)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(job: &str, attempt: u64) -> ExecutorJobId {
        ExecutorJobId { job: job.parse().unwrap(), trial: Some(TrialId(1)), attempt }
    }

    fn is_first(position: &Position) -> bool {
        matches!(position, Position::First(_))
    }

    #[test]
    fn one_attempt_gets_its_places_at_a_time_in_the_order_of_their_submissions() {
        let queue = PlacementQueue::new(Duration::from_secs(100));
        let now = Instant::now();
        let ids = ["a", "b", "c"].map(|job| id(job, 1));
        for id in &ids {
            queue.enter(id, false, now);
        }
        let expected =
            "attempts with several replicas get their places one after the other, and a-trial-1-attempt-1 comes first";
        assert_eq!(queue.position(&ids[1], now), Position::Behind(expected.to_owned()));
        assert_eq!(queue.position(&ids[0], now), Position::First(now));
        assert_eq!(queue.position(&ids[0], now + Duration::from_secs(1)), Position::First(now));
        queue.placed(&ids[0]);
        assert!(!is_first(&queue.position(&ids[2], now)) && is_first(&queue.position(&ids[1], now)));
        queue.ended(&ids[1]);
        assert!(is_first(&queue.position(&ids[2], now)));
        assert!(!queue.knows(&ids[1]) && queue.knows(&ids[2]));
    }

    #[test]
    fn attempt_that_gave_its_places_back_pauses_longer_each_time_and_holds_up_no_other() {
        let queue = PlacementQueue::new(Duration::from_secs(100));
        let now = Instant::now();
        let mut last = Duration::ZERO;
        for attempt in 1..=6 {
            let run = id("a", attempt);
            queue.enter(&run, false, now);
            let begin = now + last;
            assert!(is_first(&queue.position(&run, begin)));
            queue.gave_back(&run, "it got 2 of 3 places", begin);
            let next = id("a", attempt + 1);
            queue.enter(&next, false, begin);
            let Position::Behind(reason) = queue.position(&next, begin) else { panic!("it pauses") };
            assert!(reason.starts_with("it got 2 of 3 places; it tries again within "), "{reason}");
            // Meanwhile, others proceed.
            let other = id("b", attempt);
            queue.enter(&other, false, begin);
            assert!(is_first(&queue.position(&other, begin)));
            queue.ended(&other);
            let longest = Duration::from_secs((10 << (attempt - 1)).min(100));
            assert!(!is_first(&queue.position(&next, begin + longest * 49 / 100)), "at least half of {longest:?}");
            last += longest;
            assert!(is_first(&queue.position(&next, now + last)), "at most {longest:?}");
            queue.ended(&next);
        }
    }

    #[test]
    fn attempt_that_is_not_looked_at_holds_up_no_other() {
        let queue = PlacementQueue::new(Duration::from_secs(100));
        let now = Instant::now();
        let (first, second) = (id("a", 1), id("b", 1));
        queue.enter(&first, true, now);
        queue.enter(&second, false, now);
        assert!(!is_first(&queue.position(&second, now + FORGOTTEN / 2)));
        assert!(is_first(&queue.position(&second, now + FORGOTTEN)));
        // It had started, and continues.
        assert_eq!(queue.position(&first, now + FORGOTTEN), Position::First(now));
        queue.forget(&first.job);
        assert!(!queue.knows(&first) && queue.knows(&second));
    }
}
