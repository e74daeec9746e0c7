use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::slots::SlotKind;
use tunesmith_domain::{Job, JobId, JobPlan};

/// Higher priority first, then older jobs, then by name.
type SortKey = (Reverse<i32>, Timestamp, JobId);

/// An instant on both the system clock and the monotonic clock; the latter bounds waiting times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) time: Timestamp,
    pub(super) instant: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Overdue {
    /// `scheduling.maxWaitTime` of the job.
    MaxWaitTime,
    QueueDeadline,
}

#[derive(Debug)]
struct WaitingJob {
    /// Wait deadline.
    until: Option<(Instant, Overdue)>,
    principal: Option<String>,
    slot: SlotKind,
}

/// Waiting jobs, in start order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<SortKey, WaitingJob>,
}

impl Queue {
    /// Adds a job waiting for a `slot` at `now`. Jobs that ran before have no wait limit.
    pub(super) fn push(&mut self, job: &Job, plan: &JobPlan, slot: SlotKind, now: Moment, deadline: Option<Duration>) {
        let limits = [(plan.max_wait_time, Overdue::MaxWaitTime), (deadline, Overdue::QueueDeadline)];
        let queued = job.requeue_time.unwrap_or(job.create_time);
        // The system clock was set back after the submission.
        let waited = Duration::try_from(now.time.duration_since(queued)).unwrap_or(Duration::ZERO);
        let ends = limits
            .into_iter()
            .filter(|_| job.start_time.is_none())
            .filter_map(|(limit, overdue)| Some((now.instant.checked_add(limit?.saturating_sub(waited))?, overdue)));
        let entry = WaitingJob { until: ends.min(), principal: plan.principal.clone(), slot };
        self.entries.insert((Reverse(plan.priority), job.create_time, job.id.clone()), entry);
    }

    /// Waiting jobs and their submitters.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (&JobId, Option<&str>)> {
        self.entries.iter().map(|((_, _, id), entry)| (id, entry.principal.as_deref()))
    }

    /// Adds a job in cancellation at the head of the queue.
    pub(super) fn push_front(&mut self, job: &Job, slot: SlotKind) {
        let principal = job.plan.as_ref().ok().and_then(|plan| plan.principal.clone());
        let entry = WaitingJob { until: None, principal, slot };
        self.entries.insert((Reverse(i32::MAX), job.create_time, job.id.clone()), entry);
    }

    /// Moves `job` to the head and lifts its wait limit; no effect if it is not queued.
    pub(super) fn move_to_front(&mut self, job: &Job) {
        if let Some(slot) = self.remove(&job.id) {
            self.push_front(job, slot);
        }
    }

    /// Removes the next job with a slot for which `has_free` holds.
    pub(super) fn pop(&mut self, has_free: impl Fn(SlotKind) -> bool) -> Option<(JobId, SlotKind)> {
        let (key, slot) = self
            .entries
            .iter()
            .find(|(_, entry)| has_free(entry.slot))
            .map(|(key, entry)| (key.clone(), entry.slot))?;
        self.entries.remove(&key);
        Some((key.2, slot))
    }

    /// Removes `job` and returns its slot kind; `None` if it was not queued.
    pub(super) fn remove(&mut self, job: &JobId) -> Option<SlotKind> {
        let slot = self.slot(job);
        self.entries.retain(|(_, _, id), _| id != job);
        slot
    }

    pub(super) fn slot(&self, job: &JobId) -> Option<SlotKind> {
        self.entries.iter().find(|((_, _, id), _)| id == job).map(|(_, entry)| entry.slot)
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&JobId) -> bool) {
        self.entries.retain(|(_, _, id), _| keeps(id));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of jobs ahead of `job` for the same kind of slot; `None` if it is not queued.
    pub(super) fn position(&self, job: &JobId) -> Option<usize> {
        let slot = self.slot(job)?;
        let mut same = self.entries.iter().filter(|(_, entry)| entry.slot == slot);
        same.position(|((_, _, id), _)| id == job)
    }

    /// Removes a job past its wait deadline.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<(JobId, Overdue)> {
        let overdue = |entry: &WaitingJob| entry.until.filter(|(until, _)| *until <= now).map(|(_, overdue)| overdue);
        let (key, why) = self.entries.iter().find_map(|(key, entry)| Some((key.clone(), overdue(entry)?)))?;
        self.entries.remove(&key);
        Some((key.2, why))
    }

    /// Earliest wait deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.until).map(|(until, _)| until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_contract::samples;
    use tunesmith_domain::JobFields;

    fn plan(priority: i32, max_wait_secs: Option<u64>) -> JobPlan {
        JobPlan { priority, max_wait_time: max_wait_secs.map(Duration::from_secs), ..samples::plan() }
    }

    fn job(id: &str, create_secs: i64) -> Job {
        Job::restore(JobFields { create_time: samples::at(create_secs), ..(*samples::job(id)).clone() })
    }

    #[test]
    fn jobs_start_by_priority_then_age_and_cancelled_ones_first() {
        let mut queue = Queue::default();
        let jobs = [("young", 2, 0), ("old", 1, 0), ("important", 3, 5), ("cancelled", 4, 0)];
        for (id, create_secs, priority) in jobs {
            queue.push(&job(id, create_secs), &plan(priority, None), SlotKind::Local, at(0, Instant::now()), None);
        }
        let important = plan(9, None);
        queue.push(&job("elsewhere", 0), &important, SlotKind::Remote, at(0, Instant::now()), None);
        queue.move_to_front(&job("cancelled", 4));
        queue.move_to_front(&job("unknown", 4));
        assert_eq!(queue.position(&"old".parse().unwrap()), Some(2));
        assert_eq!(queue.position(&"elsewhere".parse().unwrap()), Some(0));
        let mut next = |wanted| queue.pop(|slot| slot == wanted).map(|(id, _)| id.to_string());
        let order: Vec<String> = std::iter::from_fn(|| next(SlotKind::Local)).collect();
        assert_eq!(order, ["cancelled", "important", "old", "young"]);
        assert_eq!(next(SlotKind::Remote).as_deref(), Some("elsewhere"));
    }

    /// The system clock shows `secs` at `instant`.
    fn at(secs: i64, instant: Instant) -> Moment {
        Moment { time: samples::at(secs), instant }
    }

    #[test]
    fn waiting_time_is_limited_unless_the_job_has_run_before() {
        let begin = Instant::now();
        let after = |secs| begin + Duration::from_secs(secs);
        let mut queue = Queue::default();
        queue.push(&job("patient", 0), &plan(9, None), SlotKind::Local, at(0, begin), None);
        queue.push(&job("waits", 0), &plan(0, Some(60)), SlotKind::Local, at(10, begin), None);
        let started = JobFields { start_time: Some(samples::at(1)), ..(*job("started", 0)).clone() };
        queue.push(
            &Job::restore(started),
            &plan(0, Some(10)),
            SlotKind::Local,
            at(10, begin),
            Some(Duration::from_secs(1)),
        );
        assert_eq!(queue.next_deadline(), Some(after(50)));
        assert_eq!(queue.pop_overdue(after(49)), None);
        assert_eq!(queue.pop_overdue(after(50)), Some(("waits".parse().unwrap(), Overdue::MaxWaitTime)));
        assert_eq!((queue.pop_overdue(after(999)), queue.next_deadline()), (None, None));
    }

    #[test]
    fn job_that_was_submitted_in_the_future_waits_for_its_whole_time() {
        let begin = Instant::now();
        let mut queue = Queue::default();
        queue.push(&job("waits", 9000), &plan(0, Some(60)), SlotKind::Local, at(0, begin), None);
        assert_eq!(queue.next_deadline(), Some(begin + Duration::from_secs(60)));
    }

    #[test]
    fn queue_deadline_of_the_server_ends_the_waiting_of_a_job_with_a_longer_one() {
        let begin = Instant::now();
        let mut queue = Queue::default();
        queue.push(&job("waits", 0), &plan(0, Some(60)), SlotKind::Local, at(0, begin), Some(Duration::from_secs(9)));
        let over = begin + Duration::from_secs(9);
        assert_eq!(queue.pop_overdue(over), Some(("waits".parse().unwrap(), Overdue::QueueDeadline)));
    }
}
