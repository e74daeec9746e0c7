//! Reasons for a job or its trials to wait.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Int64;
use tunesmith_domain::{WaitKind, Waiting};

/// Reason for a job or its trials to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Waiting")]
pub struct WaitingMessage {
    /// Kind of reason: `LIMIT` on concurrent work, `RESOURCES` in use, `JOB_SLOT`, or `ENGINE` that runs the program.
    #[schemars(schema_with = "wait_kind_schema")]
    pub kind: String,
    /// Text for display.
    pub reason: String,
    /// Number of the waiting trial. Absent for trials without parameters, and if the job waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_id: Option<String>,
    /// Number of trials waiting for this reason. Absent if the job waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_count: Option<Int64>,
    /// Start of the wait.
    pub since: Timestamp,
}

impl From<&Waiting> for WaitingMessage {
    fn from(waiting: &Waiting) -> Self {
        Self {
            kind: waiting.kind.as_str().to_uppercase(),
            reason: waiting.reason.clone(),
            trial_id: waiting.trial.map(|trial| trial.to_string()),
            trial_count: i64::try_from(waiting.trials).ok().filter(|trials| *trials > 0).map(Int64),
            since: waiting.since,
        }
    }
}

fn wait_kind_schema(_: &mut SchemaGenerator) -> Schema {
    let kinds = [WaitKind::Limit, WaitKind::ExecutorLimit, WaitKind::Resources, WaitKind::JobSlot, WaitKind::Engine];
    json_schema!({ "type": "string", "enum": kinds.map(|kind| kind.as_str().to_uppercase()) })
}
