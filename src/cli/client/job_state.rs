//! Job states as text and exit codes.

use std::process::ExitCode;

use crate::cli::output::notice;
use crate::cli::progress::waiting_line;
use tunesmith_api::ai_platform::MlflowExportState;
use tunesmith_api::ai_platform::job::{JobResource, WaitingMessage};
use tunesmith_client::Client;
use tunesmith_domain::JobState;

/// Prints a job's final state and returns the exit code.
pub(super) async fn conclude(client: &Client, id: &str, state: JobState) -> anyhow::Result<ExitCode> {
    notice(state_line(&*client.job(id).await?).trim_end());
    Ok(if state == JobState::Succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn state_line(job: &JobResource) -> String {
    let JobResource { job_id, state, error_message, .. } = job;
    let separator = if error_message.is_empty() { "" } else { ": " };
    format!("job {job_id} is {state}{separator}{error_message}\n")
}

/// Line about the export of `job` to MLflow, if it has one.
pub(super) fn mlflow_line(job: &JobResource) -> String {
    let Some(export) = &job.tunesmith.mlflow else { return String::new() };
    let target = format!("experiment {:?} of {}", export.experiment, export.tracking_uri);
    match (&export.state, export.failing_since) {
        (MlflowExportState::Complete, _) => format!("exported to {target}\n"),
        (MlflowExportState::Failing, Some(since)) => {
            format!("the export to {target} fails since {since}: {}\n", export.error_message)
        }
        _ => format!("exporting to {target}\n"),
    }
}

/// One line per reason why `job` or its trials are waiting.
pub(super) fn waiting_lines(job: &JobResource) -> String {
    let line = |WaitingMessage { reason, trial_id, trial_count, .. }: &WaitingMessage| match (
        trial_id,
        trial_count.map_or(0, |count| count.0.cast_unsigned()),
    ) {
        (Some(trial), _) => format!("trial {trial} waits: {reason}\n"),
        (None, 0) => format!("the job waits: {reason}\n"),
        (None, trials) => format!("{}\n", waiting_line(trials, reason)),
    };
    job.tunesmith.waiting.iter().map(line).collect()
}
