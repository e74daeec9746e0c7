//! Trials: lists, and one with its curve.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_api::ai_platform::Int64;
use tunesmith_api::ai_platform::optimizer::MeasurementMessage;

use crate::context::Context;
use crate::failure::Failure;
use crate::program_text::ProgramText;
use crate::rows::{TrialRow, row, table};
use crate::subject::{Of, TrialName, bounded};
use crate::tool::{Effects, Tool};

/// Most measurements in a result.
const MAX_MEASUREMENTS: usize = 200;

/// Start of a page token, before the number of trials that were listed.
const TOKEN: &str = "after-";

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            ("mcp.list_trials", "List trials"),
            "Lists trials of a job or study that a filter selects, in order, one page at a time.",
            Effects::Reads,
            json!({"job": "census", "filter": "state = SUCCEEDED", "order_by": "metric.accuracy desc", "page_size": 10}),
            list_trials,
        ),
        Tool::new(
            ("mcp.get_trial", "Get a trial"),
            "Gets a trial with its learning curve.",
            Effects::Reads,
            json!({"job": "census", "trial": 3}),
            get_trial,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ListArguments {
    #[serde(flatten)]
    of: Of,
    /// As in `state = SUCCEEDED AND parameters.lr < 0.01 AND NOT metric.loss > 1`; default all. Fields: id, state
    /// (REQUESTED ACTIVE STOPPING SUCCEEDED INFEASIBLE), metric.NAME, parameters.NAME, duration, origin, clientId,
    /// infeasibleReason, note, stoppedEarly, createTime, startTime, endTime.
    filter: Option<String>,
    /// A field, and ` desc` for the largest first; default id.
    order_by: Option<String>,
    /// 1 to 200; default 50.
    page_size: Option<u64>,
    /// next_page_token of the previous page.
    page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct TrialPage {
    trials: Vec<TrialRow>,
    /// Number of trials that the filter selects.
    total: u64,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

async fn list_trials(context: Context, arguments: ListArguments) -> Result<TrialPage, Failure> {
    let size = bounded("page_size", arguments.page_size, 50, (1, 200))?;
    let offset = match arguments.page_token.as_deref().filter(|token| !token.is_empty()) {
        None => 0,
        Some(token) => token.strip_prefix(TOKEN).and_then(|offset| offset.parse::<u32>().ok()).ok_or_else(|| {
            Failure::argument("page_token", "was not issued by this server", "next_page_token of the previous page")
        })?,
    };
    let subject = arguments.of.subject(&context)?;
    let (filter, order) = (arguments.filter.unwrap_or_default(), arguments.order_by.unwrap_or_default());
    let found = table(&subject.study, &filter, &order, (offset.into(), size)).await?;
    let next = u64::from(offset) + found.view.rows.len() as u64;
    let has_more = next < found.matched && !found.view.rows.is_empty();
    Ok(TrialPage {
        trials: found.view.rows.into_iter().map(TrialRow::from).collect(),
        total: found.matched,
        next_page_token: has_more.then(|| format!("{TOKEN}{next}")),
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TrialArguments {
    #[serde(flatten)]
    pub(super) of: Of,
    /// Number of the trial.
    pub(super) trial: TrialName,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct TrialDetails {
    #[serde(flatten)]
    trial: TrialRow,
    /// Learning curve, by step.
    curve: Vec<Point>,
    /// Measurements left out between those of `curve`.
    omitted_measurements: usize,
    /// Runs that were lost with their machine, and repeated.
    lost_runs: i64,
    /// Runs that a scheduler preempted, and that were repeated.
    preempted_runs: i64,
    /// Nodes of the last known run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    /// Whole reason for the missing result.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_reason: Option<ProgramText>,
    /// Whole note of a person, if it is longer than `note`.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_note: Option<ProgramText>,
}

/// Values of the metrics at a step.
#[derive(Serialize, JsonSchema)]
struct Point {
    step: i64,
    metrics: BTreeMap<String, f64>,
}

impl From<&MeasurementMessage> for Point {
    fn from(message: &MeasurementMessage) -> Self {
        let metrics = message.metrics.iter().map(|metric| (metric.metric.clone(), metric.value.0)).collect();
        Self { step: message.step_count.0, metrics }
    }
}

async fn get_trial(context: Context, arguments: TrialArguments) -> Result<TrialDetails, Failure> {
    let subject = arguments.of.subject(&context)?;
    let number = arguments.trial.number();
    let trial = row(&subject.study, number).await?;
    let found = subject.study.trials(&format!("id = {number}")).await?.message.trials;
    let message = found.first().map(|trial| &trial.message);
    let measurements = message.map_or(&[][..], |message| &message.measurements);
    let every = measurements.len().div_ceil(MAX_MEASUREMENTS).max(1);
    // The last one always counts.
    let shown = measurements.iter().rev().step_by(every);
    let mut curve: Vec<Point> = shown.map(Point::from).collect();
    curve.reverse();
    let count = |count: Option<Int64>| count.map_or(0, |Int64(count)| count);
    let additions = message.map(|message| &message.tunesmith);
    let note = additions.and_then(|additions| additions.note.as_ref()).map(|note| note.text.as_str());
    let last = additions.and_then(|additions| additions.attempts.last());
    Ok(TrialDetails {
        trial: trial.into(),
        omitted_measurements: measurements.len() - curve.len(),
        curve,
        lost_runs: additions.map_or(0, |additions| count(additions.lost_attempts)),
        preempted_runs: additions.map_or(0, |additions| count(additions.preempted_attempts)),
        nodes: last.map(|attempt| attempt.nodes.iter().map(|node| node.node.clone()).collect()).unwrap_or_default(),
        whole_reason: message.and_then(|message| message.infeasible_reason.as_deref()).and_then(ProgramText::given),
        whole_note: note.filter(|text| text.chars().nth(300).is_some()).and_then(ProgramText::given),
    })
}
