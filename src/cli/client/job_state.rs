//! The state of a job, as text and as exit code.

use std::process::ExitCode;

use serde_json::Value;

use super::request::text;
use super::service::Client;
use crate::cli::output::notice;
use tunesmith_domain::JobState;

/// Prints the final state of a job, and returns the exit code.
pub(super) async fn conclude(client: &Client, id: &str, state: JobState) -> anyhow::Result<ExitCode> {
    let job = client.get(&client.path(&["jobs", id]), &[]).await?;
    notice(state_line(id, &job).trim_end());
    Ok(if state == JobState::Succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the line that states the state of a job.
pub(super) fn state_line(id: &str, job: &Value) -> String {
    let message = text(job, "errorMessage");
    let separator = if message.is_empty() { "" } else { ": " };
    format!("job {id} is {}{separator}{message}\n", text(job, "state"))
}
