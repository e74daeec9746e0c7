//! Job logs. AI Platform has no such messages: its logs belong to another service.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Int64;
use super::job::{deserialize_state, serialize_state};
use tunesmith_domain::JobState;

/// A page of the logs of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLogList {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<JobLog>,
    /// Job state before the logs were read.
    #[serde(serialize_with = "serialize_state", deserialize_with = "deserialize_state")]
    pub job_state: JobState,
    pub read_time: Timestamp,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLog {
    /// `projects/{project}/jobs/{job}/logs/{log}`.
    pub name: String,
    /// Absent in a job without hyperparameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Int64>,
    pub attempt: Int64,
    /// Task such as `master-0`.
    pub task: String,
    /// `stdout` or `stderr`.
    pub stream: String,
    pub size_bytes: Int64,
}

/// Part of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLogPart {
    pub text: String,
    /// Offset after the last byte.
    pub next_offset: Int64,
}
