//! `wait_for_job`: waits for results with progress.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;
use tunesmith_api::ai_platform::job::JobResource;
use tunesmith_client::Client;
use tunesmith_domain::StudyId;

use super::jobs::{JobArguments, JobSummary};
use crate::context::Context;
use crate::failure::Failure;
use crate::rows::count;
use crate::subject::bounded;
use crate::tool::{Effects, Tool};

/// Time between the first two polls, and the longest for a job with few trials.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Additional time between polls for each trial, since a poll renders all of them (a guess: a tenth of a percent of a processor).
const INTERVAL_OF_TRIAL: Duration = Duration::from_micros(200);

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(
        ("mcp.wait_for_job", "Wait for a job"),
        "Waits until a job has ended, or has its next result, and reports progress. Returns at the time limit with the state so \
         far; call it again to go on. It can be cancelled; the job goes on.",
        Effects::Reads,
        json!({"job": "census", "until": "ended", "timeout_secs": 60}),
        wait_for_job,
    )]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Until {
    Ended,
    NextResult,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    of: JobArguments,
    /// Default ended.
    until: Option<Until>,
    /// 0 to 600; default 60.
    timeout_secs: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Waited {
    /// Whether what was awaited has happened; otherwise the time is over.
    reached: bool,
    #[serde(flatten)]
    job: JobSummary,
    failed_trials: u64,
}

async fn wait_for_job(context: Context, arguments: Arguments) -> Result<Waited, Failure> {
    let limit = bounded("timeout_secs", arguments.timeout_secs, 60, (0, 600))?;
    let (client, id) = arguments.of.client(&context)?;
    let end = Instant::now() + Duration::from_secs(limit);
    let (mut interval, longest) = POLL_INTERVALS;
    let (mut before, mut reported) = (None, None);
    loop {
        let (job, failed_trials) = match poll(&client, id).await {
            Ok(polled) => polled,
            // The server restarts, or limits its callers.
            Err(failure) if failure.is_retryable() && Instant::now() < end => {
                tokio::time::sleep_until(end.min(Instant::now() + longest)).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let summary = JobSummary::from(&job);
        let ended = summary.completed_trials.cast_unsigned() + failed_trials;
        let is_new = *before.get_or_insert(ended) != ended;
        let reached = job.state.is_final() || (arguments.until == Some(Until::NextResult) && is_new);
        if reached || Instant::now() >= end {
            return Ok(Waited { reached, job: summary, failed_trials });
        }
        // Progress must rise.
        if reported.is_none_or(|reported| reported < ended) {
            let of = summary.max_trials.map_or_else(String::new, |total| format!(" of {total}"));
            let failed = if failed_trials > 0 { format!(", {failed_trials} failed") } else { String::new() };
            let text = format!("{}: {ended}{of} trials have ended{failed}", summary.state);
            context.report(ended, summary.max_trials, text).await;
            reported = Some(ended);
        }
        tokio::time::sleep_until(end.min(Instant::now() + interval)).await;
        let of_trials = INTERVAL_OF_TRIAL * u32::try_from(ended).unwrap_or(u32::MAX);
        interval = (longest + of_trials).min(interval * 2).max(of_trials);
    }
}

/// The job, and the number of its failed trials.
async fn poll(client: &Client, id: &str) -> Result<(JobResource, u64), Failure> {
    let job = client.job(id).await?.message;
    let study = client.study(StudyId::JOBS_LOCATION, id);
    let is_tuning = job.training_output.is_hyperparameter_tuning_job;
    let failed_trials = if is_tuning { count(&study, "state = INFEASIBLE").await? } else { 0 };
    Ok((job, failed_trials))
}
