//! Messages that all of Google's services share: nothing, and errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `google.protobuf.Empty`: there is nothing to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// What is answered to a request that was not carried out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorAnswer {
    /// Why.
    pub error: ErrorStatus,
}

/// `google.rpc.Status`, in the form of an HTTP answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorStatus {
    /// The HTTP status.
    pub code: u16,
    /// A text for people.
    pub message: String,
    /// Name of the `google.rpc.Code`.
    pub status: &'static str,
    /// Which fields of the request are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
}

/// `google.rpc.Status`, in an operation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    /// The `google.rpc.Code`.
    pub code: i32,
    /// A text for people.
    pub message: String,
    /// Which fields of the request are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
}

/// More about an error.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum ErrorDetail {
    /// Fields of the request are wrong.
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest(BadRequest),
    /// What happened, for programs.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo(ErrorInfo),
}

/// What happened, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorInfo {
    /// A word in capitals, such as `TRIAL_LOST`.
    pub reason: &'static str,
    /// Who made that word.
    pub domain: &'static str,
}

/// Fields of a request that are wrong.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BadRequest {
    /// Each, and the rule that it breaks.
    pub field_violations: Vec<FieldViolation>,
}

/// A field of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldViolation {
    /// Its path, such as `studyConfig.parameters[0].type`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}
