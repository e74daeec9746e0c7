//! The state of a job, as text and as exit code.

use std::process::ExitCode;

use serde_json::Value;

use super::request::{list, text};
use super::service::Client;
use crate::cli::output::notice;
use crate::cli::progress::waiting_line;
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

/// Returns a line for each reason for which `job` waits, or trials of it.
pub(super) fn waiting_lines(job: &Value) -> String {
    let line = |waiting: &Value| {
        let reason = text(waiting, "reason");
        let trials = text(waiting, "trialCount").parse().unwrap_or(0);
        match (text(waiting, "trialId"), trials) {
            ("", 0) => format!("the job waits: {reason}\n"),
            ("", trials) => format!("{}\n", waiting_line(trials, reason)),
            (trial, _) => format!("trial {trial} waits: {reason}\n"),
        }
    };
    list(&job["tunesmith"], "waiting").iter().map(line).collect()
}
