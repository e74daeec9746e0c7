//! Trials as rows: the view `table` of a study.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tunesmith_client::StudyClient;

use crate::failure::Failure;
use crate::program_text::ProgramText;

/// A view of a study.
#[derive(Debug, Deserialize)]
pub(crate) struct View<T> {
    /// Number of trials that the filter selects.
    pub(crate) matched: u64,
    pub(crate) view: T,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: u64,
    state: String,
    #[serde(default)]
    stopped_early: bool,
    pub(crate) metrics: BTreeMap<String, f64>,
    #[serde(default)]
    violated_constraints: Vec<String>,
    pub(crate) parameters: BTreeMap<String, Value>,
    start_time: Option<String>,
    end_time: Option<String>,
    duration: Option<f64>,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    measurements: u32,
    origin: Option<String>,
    #[serde(default)]
    client_id: String,
    #[serde(default)]
    infeasible_reason: String,
    #[serde(default)]
    note: String,
}

/// A trial.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TrialRow {
    /// Number of the trial.
    trial: u64,
    /// REQUESTED, ACTIVE, STOPPING, SUCCEEDED or INFEASIBLE.
    state: String,
    parameters: BTreeMap<String, Value>,
    /// Results by metric.
    metrics: BTreeMap<String, f64>,
    /// Step of the search, or `client` for parameters that a client proposed.
    proposed_by: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stopped_early: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violated_constraints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_secs: Option<f64>,
    /// Number of its runs.
    attempts: u32,
    /// Number of reports.
    measurements: u32,
    /// Owner, in a study.
    #[serde(skip_serializing_if = "String::is_empty")]
    client_id: String,
    /// Why it has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ProgramText>,
    /// Note of a person; at most 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<ProgramText>,
}

impl From<Row> for TrialRow {
    fn from(row: Row) -> Self {
        Self {
            trial: row.id,
            state: row.state,
            parameters: row.parameters,
            metrics: row.metrics,
            proposed_by: row.origin.unwrap_or_else(|| "client".to_owned()),
            stopped_early: row.stopped_early,
            violated_constraints: row.violated_constraints,
            start_time: row.start_time,
            end_time: row.end_time,
            duration_secs: row.duration,
            attempts: row.attempt,
            measurements: row.measurements,
            client_id: row.client_id,
            reason: ProgramText::given(&row.infeasible_reason),
            note: ProgramText::given(&row.note),
        }
    }
}

impl TrialRow {
    pub(crate) fn id(&self) -> u64 {
        self.trial
    }

    pub(crate) fn number(&self) -> String {
        self.trial.to_string()
    }

    pub(crate) fn reason(&self) -> Option<&ProgramText> {
        self.reason.as_ref()
    }
}

impl Row {
    /// Whether a client proposed it.
    pub(crate) fn is_of_client(&self) -> bool {
        self.origin.is_none()
    }
}

/// At most `limit` trials of `study` from `offset` on that `filter` selects, in `order`.
pub(crate) async fn table(
    study: &StudyClient,
    filter: &str,
    order: &str,
    (offset, limit): (u64, u64),
) -> Result<View<Table>, Failure> {
    let (offset, limit) = (offset.to_string(), limit.to_string());
    let query = [("filter", filter), ("orderBy", order), ("offset", &offset), ("limit", &limit)];
    Ok(study.view("table", &query).await?)
}

/// Number of trials that `filter` selects.
pub(crate) async fn count(study: &StudyClient, filter: &str) -> Result<u64, Failure> {
    Ok(table(study, filter, "", (0, 1)).await?.matched)
}

/// Trial `number`.
///
/// # Errors
/// If it does not exist.
pub(crate) async fn row(study: &StudyClient, number: &str) -> Result<Row, Failure> {
    let mut found = table(study, &format!("id = {number}"), "", (0, 1)).await?.view.rows;
    match found.pop() {
        Some(row) => Ok(row),
        None => Err(Failure::argument("trial", format!("there is no trial {number}"), "a number of list_trials")),
    }
}

/// `name` as a part of a filter's field.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
