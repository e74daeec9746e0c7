//! `google.longrunning.Operation`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::TrialMessage;
use super::study::StudyStateName;
use crate::ai_platform::rpc::Status;

/// An operation as a client sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Operation {
    /// `projects/{project}/locations/{location}/operations/{operation}`.
    name: String,
    /// What was asked for.
    metadata: OperationMetadata,
    /// Whether it has come to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Status>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<OperationResponse>,
}

/// Whether an operation has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Not yet.
    Running,
    /// In vain.
    Failed(Status),
    /// With an answer.
    Done(OperationResponse),
}

impl Operation {
    /// The operation `name`.
    pub fn new(name: String, metadata: OperationMetadata, progress: Progress) -> Self {
        let (done, error, response) = match progress {
            Progress::Running => (false, None, None),
            Progress::Failed(status) => (true, Some(status), None),
            Progress::Done(response) => (true, None, Some(response)),
        };
        Self { name, metadata, done, error, response }
    }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum OperationMetadata {
    /// Trials.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.SuggestTrialsMetadata")]
    Suggest(SuggestTrialsMetadata),
    /// Whether a trial should stop. The name is spelled as published.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.CheckTrialEarlyStoppingStateMetatdata")]
    CheckEarlyStopping(CheckTrialEarlyStoppingStateMetadata),
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum OperationResponse {
    /// Trials.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.SuggestTrialsResponse")]
    Suggest(SuggestTrialsResponse),
    /// Whether a trial should stop.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.CheckTrialEarlyStoppingStateResponse")]
    CheckEarlyStopping(CheckTrialEarlyStoppingStateResponse),
}

/// A request for trials.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestTrialsMetadata {
    /// Name of the study.
    pub study: String,
    /// Who asked.
    pub client_id: String,
    /// For how many.
    pub suggestion_count: usize,
    /// When.
    pub create_time: Timestamp,
}

/// Trials for the client that asked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestTrialsResponse {
    /// The trials. Fewer than were asked for if the study is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<TrialMessage>,
    /// Where the study stands.
    pub study_state: StudyStateName,
    /// When the computation began.
    pub start_time: Timestamp,
    /// When it ended.
    pub end_time: Timestamp,
}

/// A question whether a trial should stop.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckTrialEarlyStoppingStateMetadata {
    /// When it was asked.
    pub create_time: Timestamp,
    /// Name of the study.
    pub study: String,
    /// Number of the trial.
    pub trial: String,
}

/// Whether a trial should stop.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckTrialEarlyStoppingStateResponse {
    /// Whether it should.
    pub should_stop: bool,
    /// When the computation began.
    pub start_time: Timestamp,
    /// When it ended.
    pub end_time: Timestamp,
}

/// Some operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListOperationsResponse")]
pub struct OperationList {
    /// The operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// What asks for the next ones; absent if there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}
