//! `wait_for_job`: waits for results, with progress or as a task.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;
use tunesmith_domain::StudyId;

use super::jobs::{JobArguments, JobSummary};
use crate::context::Context;
use crate::failure::Failure;
use crate::rows::count;
use crate::subject::bounded;
use crate::tool::{Effects, Tool};

/// Name of the tool in audit records.
pub(crate) const METHOD: &str = "mcp.wait_for_job";

/// Time between the first two polls, and the longest for a job with few trials.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Additional time between polls for each trial, since a poll renders all of them (a guess: a tenth of a percent of a processor).
const INTERVAL_OF_TRIAL: Duration = Duration::from_micros(200);

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(
        (METHOD, "Wait for a job"),
        "Waits until a job has ended, or has its next result, and reports progress. Returns at the time limit with the state so \
         far; call it again to go on. It can be cancelled; the job goes on.",
        Effects::Reads,
        json!({"job": "census", "until": "ended", "timeout_secs": 60}),
        wait_for_job,
    )]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
pub(crate) struct Waited {
    /// Whether what was awaited has happened; otherwise the time is over.
    reached: bool,
    #[serde(flatten)]
    job: JobSummary,
    failed_trials: u64,
}

/// State of a wait, which no server keeps: it is the ID of the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    job: String,
    project: Option<String>,
    until: Option<Until>,
    pub(crate) timeout_secs: u64,
    /// Trials that had ended at its beginning.
    ended_before: Option<u64>,
    pub(crate) created: Timestamp,
}

/// State of the job at a poll.
pub(crate) struct Polled {
    pub(crate) waited: Waited,
    /// Whether nothing is left to wait for.
    pub(crate) is_over: bool,
    pub(crate) message: String,
    ended: u64,
}

impl Wait {
    /// Wait with the arguments of a call, from now on.
    ///
    /// # Errors
    /// If they are not valid.
    pub(crate) fn new(arguments: serde_json::Value) -> Result<Self, Failure> {
        let Arguments { of, until, timeout_secs } = serde_path_to_error::deserialize(arguments)?;
        Self::of(of, until, timeout_secs)
    }

    fn of(of: JobArguments, until: Option<Until>, timeout_secs: Option<u64>) -> Result<Self, Failure> {
        let timeout_secs = bounded("timeout_secs", timeout_secs, 60, (0, 600))?;
        let JobArguments { job, project } = of;
        Ok(Self { job, project, until, timeout_secs, ended_before: None, created: Timestamp::now() })
    }

    /// Looks at the job once.
    pub(crate) async fn poll(&mut self, context: &Context) -> Result<Polled, Failure> {
        let arguments = JobArguments { job: self.job.clone(), project: self.project.clone() };
        let (client, id) = arguments.client(context)?;
        let job = client.job(id).await?.message;
        let study = client.study(StudyId::JOBS_LOCATION, id);
        let is_tuning = job.training_output().is_hyperparameter_tuning_job;
        let failed_trials = if is_tuning { count(&study, "state = INFEASIBLE").await? } else { 0 };
        let summary = JobSummary::from(&job);
        let ended = summary.completed_trials.cast_unsigned() + failed_trials;
        let is_new = *self.ended_before.get_or_insert(ended) != ended;
        let reached = job.state.is_final() || (self.until == Some(Until::NextResult) && is_new);
        let of = summary.max_trials.map_or_else(String::new, |total| format!(" of {total}"));
        let failed = if failed_trials > 0 { format!(", {failed_trials} failed") } else { String::new() };
        let message = format!("{}: {ended}{of} trials have ended{failed}", summary.state);
        let is_over = reached || self.is_over();
        Ok(Polled { waited: Waited { reached, job: summary, failed_trials }, is_over, message, ended })
    }

    /// Whether its time is over.
    fn is_over(&self) -> bool {
        let age = Timestamp::now().duration_since(self.created).as_secs();
        u64::try_from(age).is_ok_and(|age| age >= self.timeout_secs)
    }
}

async fn wait_for_job(context: Context, arguments: Arguments) -> Result<Waited, Failure> {
    let Arguments { of, until, timeout_secs } = arguments;
    let mut wait = Wait::of(of, until, timeout_secs)?;
    let end = Instant::now() + Duration::from_secs(wait.timeout_secs);
    let (mut interval, longest) = POLL_INTERVALS;
    let mut reported = None;
    loop {
        let polled = match wait.poll(&context).await {
            Ok(polled) => polled,
            // The server restarts, or limits its callers.
            Err(failure) if failure.is_retryable() && Instant::now() < end => {
                tokio::time::sleep_until(end.min(Instant::now() + longest)).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let Polled { waited, is_over, message, ended } = polled;
        if is_over || Instant::now() >= end {
            return Ok(waited);
        }
        // Progress must rise.
        if reported.is_none_or(|reported| reported < ended) {
            context.report(ended, waited.job.max_trials, message).await;
            reported = Some(ended);
        }
        tokio::time::sleep_until(end.min(Instant::now() + interval)).await;
        let of_trials = INTERVAL_OF_TRIAL * u32::try_from(ended).unwrap_or(u32::MAX);
        interval = (longest + of_trials).min(interval * 2).max(of_trials);
    }
}
