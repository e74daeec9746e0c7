//! Running-time limit of a job on the monotonic clock, and timestamps of its trials.
//!
//! The system clock is read once, when a process begins to run the job; later jumps neither shorten nor extend the
//! limit.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::until;
use tunesmith_domain::{Job, JobPlan, Trial};

/// Deadline of a running job.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningTime {
    limit: Duration,
    /// `None` if beyond the range of the clock.
    end: Option<Instant>,
}

impl RunningTime {
    /// Deadline of `job`, given that `now` corresponds to `instant`; `None` for unlimited.
    pub(super) fn of(job: &Job, plan: &JobPlan, now: Timestamp, instant: Instant) -> Option<Self> {
        let limit = plan.max_running_time?;
        let passed = job.start_time.map_or(Duration::ZERO, |start| {
            // A start in the future: the system clock was set back.
            Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO)
        });
        Some(Self { limit, end: instant.checked_add(limit.saturating_sub(passed)) })
    }

    pub(super) fn is_reached(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Waits for the deadline and returns the reason for ending the job.
    pub(super) async fn reached(&self) -> String {
        until(self.end).await;
        self.message()
    }

    pub(super) fn message(&self) -> String {
        format!("the job ran longer than scheduling.maxRunningTime allows ({} s)", self.limit.as_secs())
    }
}

/// Timestamp for changing `trial` at `now`, never earlier than its previous change.
pub(super) fn time_of_change(trial: &Trial, now: Timestamp) -> Timestamp {
    now.max(trial.create_time).max(trial.start_time.unwrap_or(trial.create_time))
}

#[cfg(test)]
mod tests {
    use tunesmith_contract::samples;
    use tunesmith_domain::{JobChange, JobFields, JobState, TrialChange};

    use super::*;

    /// Remaining seconds of a 60 s limit for a job started at `start`, when a process begins to run it at `now`.
    fn left(start: i64, now: i64) -> u64 {
        let fields = JobFields { start_time: Some(samples::at(start)), ..(*samples::job("j")).clone() };
        let plan = JobPlan { max_running_time: Some(Duration::from_secs(60)), ..samples::plan() };
        let begin = Instant::now();
        let limit = RunningTime::of(&Job::restore(fields), &plan, samples::at(now), begin).unwrap();
        (limit.end.unwrap() - begin).as_secs()
    }

    #[test]
    fn limit_counts_from_the_start_of_the_job() {
        assert_eq!([left(100, 100), left(100, 140), left(100, 3600)], [60, 20, 0]);
    }

    #[test]
    fn times_do_not_run_backwards_with_the_system_clock() {
        let mut trial = Trial::new(samples::new_trial(1)).unwrap();
        let hour = jiff::SignedDuration::from_hours(1);
        let start = trial.create_time + hour;
        trial.apply(TrialChange::BeginAttempt { attempt: 1, previous_loss: None, at: start }).unwrap();
        assert_eq!(time_of_change(&trial, start - hour), start);
        assert_eq!(time_of_change(&trial, start + hour), start + hour);
        let mut job = samples::job("j");
        let become_state = |state, at| JobChange::Become { state, error_message: String::new(), at };
        job.apply(become_state(JobState::Running, start)).unwrap();
        job.apply(become_state(JobState::Succeeded, start - hour)).unwrap();
        assert_eq!(job.end_time, job.start_time);
    }

    #[test]
    fn start_in_the_future_leaves_the_whole_limit() {
        assert_eq!(left(10_000, 100), 60);
    }
}
