//! Runs a batch prediction: prepares it, predicts, and records the end.

use super::{CANCELLED_BY_USER, Control, JobOutcome, RunError, Runner, create_dir, until_at_least, until_true};
use crate::batch_predictions::{BatchError, BatchRun};
use tunesmith_domain::{Job, JobState};
use tunesmith_executor::logs::{self, LogName, LogStream};

pub(super) async fn run(runner: &Runner, job: Job) -> Result<JobOutcome, RunError> {
    let log = |stream| {
        let name = LogName { trial: None, attempt: job.former_attempts + 1, task: logs::MASTER.to_owned(), stream };
        logs::path(&name, &runner.directory)
    };
    let (output, worker_output) = (log(LogStream::Stdout), log(LogStream::Stderr));
    if let Some(folder) = output.parent() {
        create_dir(folder).await?;
    }
    if job.state == JobState::Cancelling {
        return end(runner, JobState::Cancelled, &job.error_message).await;
    }
    let job = if job.state == JobState::Queued { runner.set_state(JobState::Preparing, "").await? } else { job };
    let predictions = &runner.services.predictions;
    let run = BatchRun { job, store: runner.services.store.clone(), output, worker_output };
    let work = async {
        predictions.prepare(&run).await?;
        runner.set_state(JobState::Running, "").await?;
        predictions.run(&run).await
    };
    let mut control = runner.control.level.clone();
    let mut cancelled = runner.control.cancelled.clone();
    let done = tokio::select! {
        biased;
        () = until_true(&mut cancelled) => None,
        // The next run continues after the finished parts.
        () = until_at_least(&mut control, Control::Drain) => {
            return if runner.is_detached() { runner.detach().await } else { runner.interrupt().await };
        }
        done = work => Some(done),
    };
    match done {
        None => end(runner, JobState::Cancelled, CANCELLED_BY_USER).await,
        Some(Ok(())) => end(runner, JobState::Succeeded, "").await,
        Some(Err(BatchError::Failed(reason))) => end(runner, JobState::Failed, &reason).await,
        Some(Err(BatchError::Store(error))) => Err(error.into()),
        Some(Err(BatchError::Files { operation, path, source })) => Err(RunError::Files { operation, path, source }),
    }
}

async fn end(runner: &Runner, state: JobState, reason: &str) -> Result<JobOutcome, RunError> {
    let outcome = runner.end(state, reason).await;
    if let Ok(JobOutcome::Ended(job)) = &outcome {
        runner.services.predictions.end(job).await;
    }
    outcome
}
