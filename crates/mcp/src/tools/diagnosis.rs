//! Why a job or trial waits or failed, and its logs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_api::ai_platform::logs::JobLog;
use tunesmith_client::{Client, LogSelection};
use tunesmith_domain::StudyId;

use super::jobs::{JobArguments, WaitReason};
use crate::context::Context;
use crate::failure::Failure;
use crate::program_text::ProgramText;
use crate::rows::{TrialRow, table};
use crate::subject::{TrialName, bounded};
use crate::tool::{Effects, Tool};

/// Bytes of a log that are searched, from its end.
const TAIL_BYTES: i64 = 64 << 10;

/// Most logs in a result: those of many replicas say the same.
const MAX_LOGS: usize = 4;

/// Lines of a failure that explain it.
const RELEVANT_LINES: usize = 40;

/// Words in lines that explain a failure.
const SIGNS: [&str; 9] =
    ["error", "exception", "fatal", "fail", "killed", "out of memory", "no such file", "denied", "not found"];

/// Failed trials that are read for the reasons.
const MAX_FAILED: u64 = 200;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.why_waiting", "Why a job waits"),
            "Explains why a job or its trials wait: limits, resources in use, the queue. Empty if nothing waits.",
            Effects::Reads,
            json!({"job": "census"}),
            why_waiting,
        ),
        Tool::new(
            ("mcp.why_failed", "Why trials failed"),
            "Explains why a job or trial failed: the reasons by number of trials, and the lines of the log that explain the trial, or \
             the last one that failed.",
            Effects::Reads,
            json!({"job": "census", "trial": 3}),
            why_failed,
        ),
        Tool::new(
            ("mcp.read_logs", "Read logs"),
            "Reads the last lines of a job's logs: those of the last run of a trial, or of a job without trials.",
            Effects::Reads,
            json!({"job": "census", "trial": 3, "tail_lines": 50}),
            read_logs,
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Waits {
    state: String,
    /// Jobs that start before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs_ahead: Option<i64>,
    waiting: Vec<WaitReason>,
}

#[derive(Deserialize, JsonSchema)]
struct TrialOfJob {
    #[serde(flatten)]
    of: JobArguments,
    /// Number of a trial; default all.
    trial: Option<TrialName>,
}

async fn why_waiting(context: Context, arguments: TrialOfJob) -> Result<Waits, Failure> {
    let (client, id) = arguments.of.client(&context)?;
    let job = client.job(id).await?.message;
    let trial = arguments.trial.as_ref().map(TrialName::number);
    let mut waiting: Vec<WaitReason> = job.tunesmith.waiting.into_iter().map(WaitReason::from).collect();
    // A reason without a trial concerns all of them.
    waiting.retain(|reason| trial.is_none() || reason.trial.is_none() || reason.trial.as_deref() == trial);
    Ok(Waits { state: job.state.to_string(), jobs_ahead: job.job_position.map(|position| position.0), waiting })
}

#[derive(Serialize, JsonSchema)]
struct WhyFailed {
    /// State of the job.
    job_state: String,
    /// Why the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_error: Option<ProgramText>,
    failed_trials: u64,
    /// Reasons, most frequent first.
    reasons: Vec<Reason>,
    /// The trial whose log is quoted.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<TrialRow>,
    /// Lines that explain the failure, by log.
    logs: Vec<LogText>,
}

/// A reason that some trials have in common.
#[derive(Serialize, JsonSchema)]
struct Reason {
    reason: ProgramText,
    trials: u64,
    /// First trials with it.
    examples: Vec<u64>,
}

/// Lines of a log.
#[derive(Serialize, JsonSchema)]
struct LogText {
    /// Such as trial-3.attempt-1.master-0.stderr.
    log: String,
    size_bytes: i64,
    lines: ProgramText,
}

async fn why_failed(context: Context, arguments: TrialOfJob) -> Result<WhyFailed, Failure> {
    let (client, id) = arguments.of.client(&context)?;
    let job = client.job(id).await?.message;
    let mut found = WhyFailed {
        job_state: job.state.to_string(),
        job_error: ProgramText::given(&job.error_message),
        failed_trials: 0,
        reasons: Vec::new(),
        trial: None,
        logs: Vec::new(),
    };
    let mut number = arguments.trial.as_ref().map(|trial| trial.number().to_owned());
    if job.training_output().is_hyperparameter_tuning_job {
        let study = client.study(StudyId::JOBS_LOCATION, id);
        let failed = table(&study, "state = INFEASIBLE", "endTime desc", (0, MAX_FAILED)).await?;
        found.failed_trials = failed.matched;
        let trials: Vec<TrialRow> = failed.view.rows.into_iter().map(TrialRow::from).collect();
        found.reasons = reasons(&trials);
        found.trial = match &number {
            Some(number) => Some(crate::rows::row(&study, number).await?.into()),
            None => trials.into_iter().next(),
        };
        number = found.trial.as_ref().map(TrialRow::number);
        if number.is_none() {
            return Ok(found);
        }
    }
    let logs = last_logs(&client, id, number.as_deref(), None).await?;
    for log in &logs {
        let tail = tail(&client, id, log).await?;
        let (text, is_cut) = relevant(&tail);
        if !text.trim().is_empty() {
            found.logs.push(log_text(log, &text, is_cut));
        }
    }
    Ok(found)
}

/// Reasons of `trials`, most frequent first. Numbers differ between trials that failed for one reason.
fn reasons(trials: &[TrialRow]) -> Vec<Reason> {
    let mut groups: BTreeMap<String, Reason> = BTreeMap::new();
    for trial in trials {
        let Some(reason) = trial.reason() else { continue };
        let key: String = reason.text().chars().filter(|c| !c.is_ascii_digit()).collect();
        let group =
            groups.entry(key).or_insert_with(|| Reason { reason: reason.clone(), trials: 0, examples: Vec::new() });
        group.trials += 1;
        if group.examples.len() < 5 {
            group.examples.push(trial.id());
        }
    }
    let mut reasons: Vec<Reason> = groups.into_values().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.trials));
    reasons.truncate(10);
    reasons
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Stream {
    Stdout,
    Stderr,
}

#[derive(Deserialize, JsonSchema)]
struct LogArguments {
    #[serde(flatten)]
    of: JobArguments,
    /// Number of the trial; absent for a job without trials.
    trial: Option<TrialName>,
    /// Default both.
    stream: Option<Stream>,
    /// 1 to 500; default 50.
    tail_lines: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Logs {
    logs: Vec<LogText>,
}

async fn read_logs(context: Context, arguments: LogArguments) -> Result<Logs, Failure> {
    let lines = bounded("tail_lines", arguments.tail_lines, 50, (1, 500))?;
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let (client, id) = arguments.of.client(&context)?;
    let trial = arguments.trial.as_ref().map(TrialName::number);
    let mut logs = Vec::new();
    for log in last_logs(&client, id, trial, arguments.stream).await? {
        let tail = tail(&client, id, &log).await?;
        let all: Vec<&str> = tail.lines().collect();
        let text = all[all.len().saturating_sub(lines)..].join("\n");
        let is_cut = text.len() < tail.trim_end().len() || log.size_bytes.0 > TAIL_BYTES;
        logs.push(log_text(&log, &text, is_cut));
    }
    Ok(Logs { logs })
}

/// Logs of the last run of `trial`, a few of those of many replicas.
async fn last_logs(
    client: &Client,
    id: &str,
    trial: Option<&str>,
    stream: Option<Stream>,
) -> Result<Vec<JobLog>, Failure> {
    let number = trial.and_then(|trial| trial.parse().ok());
    let selection = LogSelection { trial: number, ..LogSelection::default() };
    let mut logs = client.job_logs(id, &selection).await?.logs;
    let last = logs.iter().map(|log| log.attempt.0).max();
    let name = stream.map(|stream| if stream == Stream::Stdout { "stdout" } else { "stderr" });
    logs.retain(|log| Some(log.attempt.0) == last && name.is_none_or(|name| log.stream == name));
    if trial.is_none() {
        logs.retain(|log| log.trial.is_none());
    }
    // Errors first.
    logs.sort_by_key(|log| (log.stream != "stderr", log.name.clone()));
    logs.truncate(MAX_LOGS);
    Ok(logs)
}

async fn tail(client: &Client, id: &str, log: &JobLog) -> Result<String, Failure> {
    let offset = (log.size_bytes.0 - TAIL_BYTES).max(0);
    Ok(client.read_job_log(id, short_name(log), offset.cast_unsigned()).await?.text)
}

fn short_name(log: &JobLog) -> &str {
    log.name.rsplit('/').next().unwrap_or_default()
}

fn log_text(log: &JobLog, text: &str, is_cut: bool) -> LogText {
    let lines = ProgramText::new(text).cut(is_cut);
    LogText { log: short_name(log).to_owned(), size_bytes: log.size_bytes.0, lines }
}

/// Lines at the end of a log that explain a failure: the last traceback, or lines with a sign of an error, or the last lines.
/// Also whether others were left out.
fn relevant(text: &str) -> (String, bool) {
    let lines: Vec<&str> = text.lines().collect();
    let traceback = lines.iter().rposition(|line| line.starts_with("Traceback (most recent call last):"));
    let chosen: Vec<&str> = match traceback {
        Some(start) => lines[start.max(lines.len().saturating_sub(RELEVANT_LINES))..].to_vec(),
        None => {
            let is_sign = |line: &&&str| {
                let line = line.to_lowercase();
                SIGNS.iter().any(|sign| line.contains(sign))
            };
            let mut signs: Vec<&str> = lines.iter().rev().filter(is_sign).take(RELEVANT_LINES).copied().collect();
            signs.reverse();
            if signs.is_empty() { lines[lines.len().saturating_sub(RELEVANT_LINES / 4)..].to_vec() } else { signs }
        }
    };
    (chosen.join("\n"), chosen.len() < lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_explain_a_failure_are_chosen() {
        let traceback = "epoch 1\nTraceback (most recent call last):\n  File \"t.py\"\nValueError: no\n";
        let (text, is_cut) = relevant(traceback);
        assert_eq!(
            (text.as_str(), is_cut),
            ("Traceback (most recent call last):\n  File \"t.py\"\nValueError: no", true)
        );
        assert_eq!(relevant("a\nCUDA out of memory\nb\n").0, "CUDA out of memory");
        let plain: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        assert_eq!(relevant(&plain.join("\n")).0.lines().next(), Some("40"));
        assert_eq!(relevant(""), (String::new(), false));
    }
}
