//! Follows an attempt that its engine has accepted and not started.

use std::time::Duration;

use super::Context;
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use tunesmith_domain::TrialId;
use tunesmith_executor::{Executor, ExecutorJobId, ExecutorJobState};

/// Interval at which the engine is asked why an attempt waits. A guess: people read the reason.
const INTERVAL: Duration = Duration::from_secs(2);

/// Interval at which the engine is asked whether an attempt that counts as running has started at all: its agent may not reach the
/// server.
const RUNNING_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the state of the job `id`, which was submitted just now: it waits, or counts as running until
/// [`Executor::wait`] returns its end.
pub(super) async fn after_submission(executor: &dyn Executor, id: &ExecutorJobId) -> ExecutorJobState {
    match executor.state(id).await {
        Ok(waiting @ ExecutorJobState::Waiting { .. }) => waiting,
        Ok(_) => ExecutorJobState::Running,
        Err(error) => {
            // The wait that follows fails too, unless the engine is back.
            tracing::debug!(executor.job = %id, error = &error as &dyn std::error::Error, "no state after a submission");
            ExecutorJobState::Running
        }
    }
}

/// Waits until the job `id` of `trial` does not wait any more. Records and emits why it waits, at first for `reason`.
pub(super) async fn until_started(
    context: &Context,
    trial: TrialId,
    id: &ExecutorJobId,
    live: &LiveTrial,
    mut reason: String,
) {
    loop {
        if live.set_waiting(Some(reason.clone())) {
            context.emit(JobEvent::TrialWaiting { id: trial, reason: reason.clone() });
        }
        tokio::time::sleep(INTERVAL).await;
        match context.services().executor.state(id).await {
            Ok(ExecutorJobState::Waiting { reason: now }) => reason = now,
            Ok(_) => break,
            // The wait for the end of the job reports errors.
            Err(error) => {
                tracing::debug!(executor.job = %id, error = &error as &dyn std::error::Error, "no reason for waiting");
            }
        }
    }
    live.set_waiting(None);
}

/// Waits until the engine states that the job `id`, which counted as running, has not started, and returns the reason.
pub(super) async fn until_waiting(context: &Context, id: &ExecutorJobId) -> String {
    loop {
        tokio::time::sleep(RUNNING_INTERVAL).await;
        if let Ok(ExecutorJobState::Waiting { reason }) = context.services().executor.state(id).await {
            return reason;
        }
    }
}
