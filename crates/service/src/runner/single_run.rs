//! Runs a job without hyperparameters: one run of its program, repeated if the executor loses it.

use std::sync::Arc;

use super::{Context, Control, JobOutcome, RunError, create_dir, until_at_least};
use crate::trainer::Launch;
use tunesmith_domain::JobState;
use tunesmith_executor::{
    ExecutorError, ExecutorJobId, ExecutorJobState, ExitStatus, ProgramEnd, StopMode, StopReason,
};

/// Runs the job's program to its end.
///
/// Attempts are numbered from 1. The executor stores the state of each, so that a resumed job finds the current one:
/// all earlier attempts since the last retry were lost or interrupted.
pub(super) async fn run(context: &Arc<Context>) -> Result<JobOutcome, RunError> {
    let runner = &context.runner;
    let mut attempt = context.job.former_attempts;
    let mut lost = 0;
    loop {
        attempt += 1;
        let id = ExecutorJobId { job: context.job.id.clone(), trial: None, attempt };
        let mut state = context.services().executor.state(&id).await?;
        if state == ExecutorJobState::Unknown {
            state = match submit(context, &id).await {
                Ok(()) => ExecutorJobState::Running,
                Err(RunError::Executor(ExecutorError::Rejected { reason, .. })) => {
                    ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None })
                }
                Err(error) => return Err(error),
            };
        }
        if state == ExecutorJobState::Running {
            state = watch(context, &id).await?;
        }
        let interrupted = runner.is_interrupted();
        match state {
            ExecutorJobState::Ended(status) if status.stopped == Some(StopReason::Requested) => {
                if let Some(reason) = context.cancellation() {
                    return end(context, JobState::Cancelled, &reason).await;
                }
            }
            ExecutorJobState::Ended(status) => {
                return match failure(&status) {
                    None => end(context, JobState::Succeeded, "").await,
                    Some(reason) => end(context, JobState::Failed, &reason).await,
                };
            }
            ExecutorJobState::Lost { reason } => {
                lost += 1;
                if lost > context.plan.max_lost_attempts {
                    let message = format!("the place it ran in was lost {lost} times: {reason}");
                    return end(context, JobState::Failed, &message).await;
                }
            }
            ExecutorJobState::Unknown | ExecutorJobState::Running => {}
        }
        if interrupted {
            let job = runner.set_state(JobState::Queued, "").await?;
            return Ok(JobOutcome::Interrupted(job));
        }
    }
}

async fn submit(context: &Context, id: &ExecutorJobId) -> Result<(), RunError> {
    let directory = context.runner.directory.join(format!("attempt-{}", id.attempt));
    if let Some(metrics) = Launch::metric_file(&directory).parent() {
        create_dir(metrics).await?;
    }
    if let Some(job_dir) = context.plan.local_job_dir() {
        create_dir(&job_dir).await?;
    }
    let launch = Launch {
        job: &context.job,
        plan: &context.plan,
        trial: None,
        id: id.clone(),
        directory,
        python: context.python.as_deref(),
        endpoint: &context.runner.settings.endpoint,
        token: String::new(),
    };
    Ok(context.services().executor.submit(&launch.spec()).await?)
}

async fn watch(context: &Context, id: &ExecutorJobId) -> Result<ExecutorJobState, RunError> {
    let executor = &context.services().executor;
    let mut control = context.runner.control.level.clone();
    let ended = executor.wait(id);
    tokio::pin!(ended);
    let mut stopped = false;
    let mut killed = false;
    loop {
        let level = if stopped { Control::Kill } else { Control::Interrupt };
        tokio::select! {
            biased;
            state = &mut ended => return Ok(state?),
            () = until_at_least(&mut control, level), if !killed => {
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
        (ProgramEnd::NotStarted(reason), _) => Some(format!("the program could not be started: {reason}")),
    }
}
