//! `google.longrunning.Operation`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TrialMessage;
use super::study::StudyStateName;
use crate::ai_platform::rpc::Status;

/// Long-running operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Resource name: `projects/{project}/locations/{location}/operations/{operation}`.
    pub name: String,
    /// Request of the operation.
    pub metadata: OperationMetadata,
    /// Whether the operation has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Error of a failed operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Status>,
    /// Response of a successful operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<OperationResponse>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Running,
    Failed(Status),
    Done(OperationResponse),
}

impl Operation {
    pub fn new(name: String, metadata: OperationMetadata, progress: Progress) -> Self {
        let (done, error, response) = match progress {
            Progress::Running => (false, None, None),
            Progress::Failed(status) => (true, Some(status), None),
            Progress::Done(response) => (true, None, Some(response)),
        };
        Self { name, metadata, done, error, response }
    }
}

/// Request of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum OperationMetadata {
    /// Request for trials.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.SuggestTrialsMetadata")]
    Suggest(SuggestTrialsMetadata),
    /// Early stopping check. The name is spelled as published.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.CheckTrialEarlyStoppingStateMetatdata")]
    CheckEarlyStopping(CheckTrialEarlyStoppingStateMetadata),
}

/// Response of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum OperationResponse {
    /// Suggested trials.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.SuggestTrialsResponse")]
    Suggest(SuggestTrialsResponse),
    /// Result of an early stopping check.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.CheckTrialEarlyStoppingStateResponse")]
    CheckEarlyStopping(CheckTrialEarlyStoppingStateResponse),
}

/// Request for trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestTrialsMetadata {
    /// Name of the study.
    pub study: String,
    /// ID of the client.
    pub client_id: String,
    /// Number of requested trials.
    pub suggestion_count: usize,
    /// Time of the request.
    pub create_time: Timestamp,
}

/// Trials of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestTrialsResponse {
    /// Trials. Fewer than requested if the study has no more; absent if the study is `INACTIVE` and none is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<Vec<TrialMessage>>,
    /// State of the study.
    pub study_state: StudyStateName,
    /// Start time of the computation.
    pub start_time: Timestamp,
    /// End time of the computation.
    pub end_time: Timestamp,
}

/// Early stopping check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckTrialEarlyStoppingStateMetadata {
    /// Time of the request.
    pub create_time: Timestamp,
    /// Name of the study.
    pub study: String,
    /// Name of the trial, as given in the request.
    pub trial: String,
}

/// Result of an early stopping check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckTrialEarlyStoppingStateResponse {
    /// Whether the trial should stop.
    pub should_stop: bool,
    /// Start time of the computation.
    pub start_time: Timestamp,
    /// End time of the computation.
    pub end_time: Timestamp,
}
