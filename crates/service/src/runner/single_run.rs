//! Runs a job without hyperparameters: one run of its program, repeated if the executor loses it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::Instant;

use super::error_quote::{error_quote, log_name};
use super::grants::until;
use super::outage::Reach;
use super::{Context, Control, JobOutcome, RunError, not_started, until_at_least};
use crate::resource_pool::Grant;
use crate::secret::attempt_token;
use crate::trainer::Launch;
use tunesmith_domain::JobState;
use tunesmith_executor::logs::LogStream;
use tunesmith_executor::{
    ExecutorError, ExecutorJobId, ExecutorJobState, ExitStatus, LossCause, ProgramEnd, StopMode, StopReason,
};

/// Why an attempt counts as lost whose record the executor does not find.
const NO_RECORD: &str = "its record was removed while the program ran";

/// Runs the job's program to its end.
///
/// Attempts are numbered from 1. The executor stores the state of each, so that a resumed job finds the current one:
/// all earlier attempts since the last retry were lost or interrupted.
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
                return end(context, JobState::Cancelled, &reason).await;
            }
            if runner.is_interrupted() {
                return interrupt(context).await;
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
            state = submit(context, &id, &granted).await?;
            grant = Some(granted);
        }
        if grant.is_none() && state.is_open() {
            grant = Some(context.adopt_grant(&id).await?);
        }
        // Attempts that get no places follow each other.
        let asked_now = *asked.get_or_insert_with(Instant::now);
        if state.is_open() {
            match watch(context, &id, asked_now).await? {
                Some(ended) => state = ended,
                // The program is left to the next process.
                None => return Ok(JobOutcome::Interrupted(context.services().store.job(&context.job.id).await?)),
            }
        }
        grant.iter_mut().for_each(Grant::end_use);
        let interrupted = runner.is_interrupted();
        asked = None;
        match state {
            ExecutorJobState::Ended(status) if status.stopped == Some(StopReason::Requested) => {
                if let Some(reason) = context.cancellation() {
                    return end(context, JobState::Cancelled, &reason).await;
                }
            }
            ExecutorJobState::Ended(status) => {
                return match failure(&status) {
                    None => end(context, JobState::Succeeded, "").await,
                    Some(reason) => {
                        let log = log_name(&id, LogStream::Stderr);
                        let path = log.path(&runner.directory);
                        let quote = error_quote(context.services(), &runner.directory, &log).await;
                        let quote = quote.map(|line| format!(": {line}")).unwrap_or_default();
                        let message = format!("{reason}{quote} (log: {})", path.display());
                        end(context, JobState::Failed, &message).await
                    }
                };
            }
            // It pauses before it asks for places again.
            ExecutorJobState::NotPlaced { .. } => asked = Some(asked_now),
            // Repeated without limit.
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
            return end(context, JobState::Failed, &message).await;
        }
        if interrupted {
            return interrupt(context).await;
        }
    }
}

/// The calls of an attempt to its executor.
fn reach(context: &Context) -> Reach<'_> {
    Reach { context, trial: None, abandon: None }
}

/// Returns the folder of one attempt.
fn directory(context: &Context, attempt: u64) -> PathBuf {
    context.runner.directory.join(format!("attempt-{attempt}"))
}

/// Leaves the job resumable.
async fn interrupt(context: &Context) -> Result<JobOutcome, RunError> {
    Ok(JobOutcome::Interrupted(context.runner.set_state(JobState::Queued, "").await?))
}

/// Waits for the resources of the program. Returns the outcome of a job that ends before.
async fn wait_for_grant(context: &Context) -> Result<Result<Grant, Box<JobOutcome>>, RunError> {
    let mut next = context.request_grant(None, 1);
    context.show_waiting(&next, &mut String::new());
    let deadline = context.deadline(&next, Instant::now());
    let mut control = context.runner.control.level.clone();
    let outcome = tokio::select! {
        biased;
        () = until_at_least(&mut control, Control::Drain) => interrupt(context).await,
        reason = context.until_cancelled() => end(context, JobState::Cancelled, &reason).await,
        grant = next.granted() => return Ok(Ok(grant)),
        () = until(deadline) => {
            let message = format!("the program could not start: it {}", context.overdue_reason(&next));
            end(context, JobState::Failed, &message).await
        }
    };
    Ok(Err(Box::new(outcome?)))
}

/// Starts the program, and returns its state.
async fn submit(context: &Context, id: &ExecutorJobId, grant: &Grant) -> Result<ExecutorJobState, RunError> {
    let directory = directory(context, id.attempt);
    let folder = match context.use_job_folder(None).await {
        Ok(folder) => folder,
        Err(reason) => return Ok(not_started(reason)),
    };
    let launch = Launch {
        folder: &folder,
        job: &context.job,
        plan: &context.plan,
        trial: None,
        id: id.clone(),
        directory,
        python: context.python.as_deref(),
        packages: context.packages.as_ref(),
        endpoint: &context.runner.settings.endpoint,
        token: attempt_token(&context.runner.secret, id),
        grant,
    };
    let (executor, spec) = (&context.services().executor, launch.spec());
    match reach(context).call(|| executor.submit(&spec)).await {
        Ok(()) => Ok(ExecutorJobState::Running),
        Err(ExecutorError::Rejected { reason, .. }) => Ok(not_started(reason)),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the end of the program, and stops it when required. Returns `None` if it is left to the next process.
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

async fn end(context: &Context, state: JobState, message: &str) -> Result<JobOutcome, RunError> {
    Ok(JobOutcome::Ended(context.runner.set_state(state, message).await?))
}

fn failure(status: &ExitStatus) -> Option<String> {
    match (&status.end, status.stopped) {
        (_, Some(StopReason::TimeLimit)) => Some("ran longer than its time limit".to_owned()),
        (ProgramEnd::Exited(0), _) => None,
        (ProgramEnd::Exited(code), _) => Some(format!("the program ended with exit code {code}")),
        (ProgramEnd::Signaled(signal), _) => Some(format!("the program was killed by signal {signal}")),
        (ProgramEnd::OutOfMemory, _) => {
            Some("the program was killed because it took more memory than it may".to_owned())
        }
        (ProgramEnd::NotStarted(reason), _) => Some(format!("the program could not be started: {reason}")),
    }
}
