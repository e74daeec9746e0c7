//! Retries of failed runs with back-off, until the job fails.
//!
//! A run fails when the service cannot do its part: create a folder, start a supervisor. A failing program is not a
//! failed run but a trial result.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Jobs;
use crate::runner::{self, JobOutcome, JobServices, RunControl, RunError, RunSettings, end_job, until_true};
use tunesmith_domain::{Job, JobId, JobState, PlanError};
use tunesmith_executor::{ExecutorError, may_pass};
use tunesmith_store::StoreError;
use tunesmith_studies::search_policy::error_text;

/// Default back-off between failed runs, 30 s in total. A guess, longer than mounting a file system takes after boot.
pub const RETRY_PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
];

/// Default pause after a store failure.
const STORE_PAUSE: Duration = Duration::from_secs(15);

/// Run duration that resets the failure count.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// A job in back-off.
pub(super) struct Retry {
    pub(super) id: JobId,
    pub(super) pause: Duration,
    pub(super) cancelled: watch::Receiver<bool>,
}

pub(super) enum AfterFailure {
    /// Cancelled, or failed too often.
    Ended(Box<Job>),
    /// Retry after the pause.
    RunAgain {
        pause: Duration,
        /// Human-readable reason.
        message: String,
    },
    /// Unchanged: the store failed, so no job can progress, or this version cannot read the plan.
    Left,
}

impl Jobs {
    /// Runs the job until it ends, is interrupted or fails to run, and handles a failure.
    pub(super) async fn run_once(
        &self,
        id: &JobId,
        settings: &RunSettings,
        control: RunControl,
    ) -> Result<JobOutcome, (RunError, AfterFailure)> {
        let begin = Instant::now();
        self.state().retry_reasons.remove(id);
        let run = runner::run(self.services_of(id), id.clone(), settings.clone(), control);
        // A separate task confines a panic to this job.
        let result = tokio::spawn(run).await.unwrap_or_else(|panic| Err(panic.into()));
        if begin.elapsed() >= GOOD_RUN || result.is_ok() {
            self.state().failed_runs.remove(id);
        }
        match result {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                self.release_reserved(id);
                let after = self.after_failure(id, &error).await;
                Err((error, after))
            }
        }
    }

    /// Pause before the retry of a queued job; `None` without a retry.
    pub(super) fn pause_after(
        &self,
        id: &JobId,
        outcome: Result<JobOutcome, (RunError, AfterFailure)>,
    ) -> Option<Duration> {
        match outcome {
            Ok(JobOutcome::Ended(job)) => {
                tracing::info!(job.id = %id, job.state = %job.state, "a job has ended");
                None
            }
            Ok(JobOutcome::Interrupted(_)) => None,
            Err((_, AfterFailure::Ended(_))) => None,
            Err((_, AfterFailure::Left)) => Some(self.last_pause()),
            Err((_, AfterFailure::RunAgain { pause, .. })) => Some(pause),
        }
    }

    async fn after_failure(&self, id: &JobId, error: &RunError) -> AfterFailure {
        if matches!(error, RunError::Store(StoreError::NotOwner { .. })) {
            self.lose(id);
            return AfterFailure::Left;
        }
        let services: &JobServices = &self.services_of(id);
        let Ok(job) = services.store.job(id).await else { return AfterFailure::Left };
        let text = error_text(error);
        let is_cancelled = job.state == JobState::Cancelling;
        let failed_runs = {
            let mut state = self.state();
            let count = state.failed_runs.entry(id.clone()).or_default();
            *count += 1;
            *count
        };
        let is_refused = matches!(error, RunError::Executor(ExecutorError::Refused { .. }));
        let pause = self.services.retry_pauses.get(failed_runs - 1).copied().filter(|_| !is_refused);
        let is_final = is_cancelled || job.state.is_final();
        if !is_final {
            self.state().retry_reasons.insert(id.clone(), text.clone());
        }
        if !is_final && lacks_something(error) {
            // Unlimited: changing the job would not help.
            let pause = pause.unwrap_or_else(|| self.last_pause());
            let message = format!("the job waits, and is tried again in {} s: {text}", pause.as_secs());
            tracing::error!(job.id = %id, "{message}");
            return AfterFailure::RunAgain { pause, message };
        }
        if !is_final && leaves_job(error) {
            tracing::error!(job.id = %id, error = text, "the run of a job failed; it is run again later");
            return AfterFailure::Left;
        }
        if let Some(pause) = pause.filter(|_| !is_final) {
            let message = format!("the job could not be run, and is run again in {} s: {text}", pause.as_secs());
            tracing::error!(job.id = %id, "{message}");
            return AfterFailure::RunAgain { pause, message };
        }
        let reason = match is_refused {
            true => text,
            false => format!("the job could not be run, after {failed_runs} tries: {text}"),
        };
        tracing::error!(job.id = %id, "{reason}");
        match end_job(services, id, JobState::Failed, &reason).await {
            Ok(job) => {
                self.state().failed_runs.remove(id);
                AfterFailure::Ended(Box::new(job))
            }
            Err(error) => {
                tracing::error!(job.id = %id, error = &error as &dyn std::error::Error, "a job could not be ended");
                AfterFailure::Left
            }
        }
    }

    /// Queues the job after the back-off or on cancellation.
    pub(super) async fn queue_again(self: Arc<Self>, mut retry: Retry) {
        tokio::select! {
            () = until_true(&mut retry.cancelled) => {}
            () = tokio::time::sleep(retry.pause) => {}
        }
        let job = loop {
            match self.services.store.job(&retry.id).await {
                Ok(job) => break job,
                Err(StoreError::NotFound { .. }) => {
                    self.unregister(&retry.id);
                    return;
                }
                Err(_) => tokio::time::sleep(self.last_pause()).await,
            }
        };
        let (slot, now) = (self.slot_kind(&job), self.moment());
        {
            let mut state = self.state();
            state.running.remove(&retry.id);
            match job.plan() {
                Ok(plan) if job.state != JobState::Cancelling => {
                    state.queue.push(&job, plan, slot, now, self.services.pool.queue_deadline());
                }
                _ => state.queue.push_front(&job, slot),
            }
        }
        self.changed.notify_one();
        self.ended.notify_waiters();
    }

    pub(super) fn last_pause(&self) -> Duration {
        self.services.retry_pauses.last().copied().unwrap_or(STORE_PAUSE)
    }
}

/// Whether the failure is not the job's: a store outage, or a plan of another version.
fn leaves_job(error: &RunError) -> bool {
    matches!(
        error,
        RunError::Store(StoreError::NotApplied { .. } | StoreError::Unknown { .. }) | RunError::Plan(PlanError { .. })
    )
}

/// Whether the machine is temporarily short of something, such as disk space.
fn lacks_something(error: &RunError) -> bool {
    match error {
        RunError::Files { source, .. } | RunError::Executor(ExecutorError::Unreachable { source, .. }) => {
            may_pass(source)
        }
        _ => false,
    }
}
