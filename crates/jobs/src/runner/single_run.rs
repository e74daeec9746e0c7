//! Runs a job without hyperparameters: one run of its program, repeated if the executor loses it.

use std::sync::Arc;

use tokio::time::Instant;

use super::error_quote::{error_quote, log_name};
use super::grants::until;
use super::outage::Reach;
use super::{Context, Control, JobOutcome, RunError, until_at_least};
use crate::resource_pool::Grant;
use tunesmith_domain::{JobState, TrainerContract};
use tunesmith_executor::logs::{self, LogStream};
use tunesmith_executor::{ExecutorJobId, ExecutorJobState, ExitStatus, LossCause, ProgramEnd, StopMode, StopReason};

/// Reason for an attempt lost because the executor has no record of it.
const NO_RECORD: &str = "its record was removed while the program ran";

/// Runs the job's program to its end.
///
/// Attempts are numbered from 1, and the executor stores their states. A resumed job thus finds its current attempt:
/// all earlier ones since the last retry were lost or interrupted.
pub(super) async fn run(context: &Arc<Context>) -> Result<JobOutcome, RunError> {
    let runner = &context.runner;
    let mut attempt = context.job.former_attempts;
    let mut lost = Vec::new();
    let mut grant = None;
    let mut asked = None;
    loop {
        attempt += 1;
        let id = ExecutorJobId { job: context.job.id.clone(), trial: None, attempt };
        let executor = &context.services().executor;
        let mut state = reach(context).call(|| executor.state(&id)).await?;
        if state == ExecutorJobState::Unknown {
            if let Some(reason) = context.cancellation() {
                return context.runner.end(JobState::Cancelled, &reason).await;
            }
            if runner.is_interrupted() {
                return runner.interrupt().await;
            }
            let mut granted = match grant.take() {
                Some(grant) => grant,
                None => match wait_for_grant(context).await? {
                    Ok(grant) => grant,
                    Err(outcome) => return Ok(*outcome),
                },
            };
            granted.begin_use(&id);
            if runner.control.is_taken_over {
                reach(context).call(|| executor.supersede(&id)).await?;
            }
            state = reach(context).submit(None, &id, &granted).await?.unwrap_or(ExecutorJobState::Running);
            grant = Some(granted);
        }
        if grant.is_none() && state.is_open() {
            grant = Some(context.adopt_grant(&id).await?);
        }
        // Consecutive attempts without capacity share one deadline.
        let asked_now = *asked.get_or_insert_with(Instant::now);
        if state.is_open() {
            match watch(context, &id, asked_now).await? {
                Some(ended) => state = ended,
                // The program is left to the next process.
                None => return runner.detach().await,
            }
        }
        grant.iter_mut().for_each(Grant::end_use);
        let interrupted = runner.is_interrupted();
        asked = None;
        match state {
            ExecutorJobState::Ended(status) if status.stopped == Some(StopReason::Requested) => {
                if let Some(reason) = context.cancellation() {
                    return context.runner.end(JobState::Cancelled, &reason).await;
                }
            }
            ExecutorJobState::Ended(status) => {
                return match failure(&status, &context.plan.contract) {
                    None => context.runner.end(JobState::Succeeded, "").await,
                    Some(reason) => {
                        let log = log_name(&id, LogStream::Stderr);
                        let path = logs::path(&log, &runner.directory);
                        let quote = error_quote(&runner.directory, &log).await;
                        let mark = if reason.ends_with('.') { "" } else { ":" };
                        let quote = quote.map(|line| format!("{mark} {line}")).unwrap_or_default();
                        let message = format!("{reason}{quote} (log: {})", path.display());
                        context.runner.end(JobState::Failed, &message).await
                    }
                };
            }
            // Pauses before requesting capacity again.
            ExecutorJobState::NotPlaced { .. } => asked = Some(asked_now),
            // Unlimited retries.
            ExecutorJobState::Lost { cause: LossCause::Preemption, reason } => {
                tracing::info!(job.id = %context.job.id, attempt, reason, "run preempted");
            }
            ExecutorJobState::Lost { cause: LossCause::Failure, reason } => lost.push(reason),
            ExecutorJobState::Unknown | ExecutorJobState::Waiting { .. } | ExecutorJobState::Running => {
                lost.push(NO_RECORD.to_owned());
            }
        }
        if let Some(reason) = lost.last().filter(|_| lost.len() as u64 > context.plan.max_lost_attempts) {
            let message = format!("its supervisor or machine was lost {} times: {reason}", lost.len());
            return context.runner.end(JobState::Failed, &message).await;
        }
        if interrupted {
            return runner.interrupt().await;
        }
    }
}

fn reach(context: &Context) -> Reach<'_> {
    Reach { context, trial: None, abandon: None }
}

/// Waits for the program's resources. Returns the outcome of a job that ends first.
async fn wait_for_grant(context: &Context) -> Result<Result<Grant, Box<JobOutcome>>, RunError> {
    let mut next = context.request_grant(None, 1);
    context.show_waiting(&next, &mut String::new());
    let deadline = context.deadline(&next, Instant::now());
    let mut control = context.runner.control.level.clone();
    let outcome = tokio::select! {
        biased;
        () = until_at_least(&mut control, Control::Drain) => context.runner.interrupt().await,
        reason = context.until_cancelled() => context.runner.end(JobState::Cancelled, &reason).await,
        grant = next.granted() => return Ok(Ok(grant)),
        () = until(deadline) => {
            let message = format!("the program could not start: it {}", context.overdue_reason(&next));
            context.runner.end(JobState::Failed, &message).await
        }
    };
    Ok(Err(Box::new(outcome?)))
}

/// Waits for the program's end, stopping it on demand. Returns `None` if it is left to the next process.
async fn watch(context: &Context, id: &ExecutorJobId, asked: Instant) -> Result<Option<ExecutorJobState>, RunError> {
    let executor = &context.services().executor;
    let mut control = context.runner.control.level.clone();
    let reach = reach(context);
    let ended = reach.wait(&**executor, id);
    tokio::pin!(ended);
    let mut stopped = false;
    let mut killed = false;
    let mut overdue = context.engine_deadline(asked);
    loop {
        let level = if stopped && *control.borrow() >= Control::Interrupt { Control::Kill } else { Control::Detach };
        tokio::select! {
            biased;
            state = &mut ended => return Ok(Some(overdue.end(state?))),
            () = until(overdue.deadline) => {
                overdue.deadline = None;
                if let ExecutorJobState::Waiting { reason } = executor.state(id).await? {
                    overdue.reason = Some(context.engine_overdue_reason(Some(reason)));
                    executor.stop(id, StopMode::Immediate).await?;
                }
            }
            () = until_at_least(&mut control, level), if !killed => {
                if context.runner.is_detached() {
                    return Ok(None);
                }
                killed = *control.borrow() == Control::Kill;
                stopped = true;
                let how = if killed { StopMode::Immediate } else { StopMode::Graceful };
                executor.stop(id, how).await?;
            }
            reason = context.until_cancelled(), if !stopped => {
                stopped = true;
                context.runner.set_state(JobState::Cancelling, &reason).await?;
                executor.stop(id, StopMode::Graceful).await?;
            }
        }
    }
}

fn failure(status: &ExitStatus, contract: &TrainerContract) -> Option<String> {
    let is_vertex = matches!(contract, TrainerContract::VertexAi { .. });
    match (&status.end, status.stopped) {
        // The texts of Vertex AI, which its users search for.
        (ProgramEnd::Exited(code @ 1..), None) if is_vertex => {
            Some(format!("The replica workerpool0-0 exited with a non-zero status of {code}."))
        }
        (ProgramEnd::OutOfMemory, None) if is_vertex => Some("Replicas low on memory: workerpool0".to_owned()),
        (_, Some(StopReason::TimeLimit)) => Some("ran longer than its time limit".to_owned()),
        (ProgramEnd::Exited(0), _) => None,
        (ProgramEnd::Exited(code), _) => Some(format!("the program ended with exit code {code}")),
        (ProgramEnd::Signaled(signal), _) => Some(format!("the program was killed by signal {signal}")),
        (ProgramEnd::OutOfMemory, _) => Some("out of memory: the program was killed at its memory limit".to_owned()),
        (ProgramEnd::NotStarted(reason), _) => Some(format!("the program could not be started: {reason}")),
    }
}
