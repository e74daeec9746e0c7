//! Messages that all Google services share: empty messages and errors.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_domain::Refusal;

/// `google.protobuf.Empty`: an empty message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorResponse {
    /// The error.
    pub error: ErrorStatus,
}

/// `google.rpc.Status`, in the form of an HTTP response.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorStatus {
    /// The HTTP status.
    pub code: u16,
    /// Message for people.
    pub message: String,
    /// Name of the `google.rpc.Code`.
    pub status: &'static str,
    /// Details, such as the invalid fields of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
}

/// `google.rpc.Status`, in an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The `google.rpc.Code`.
    pub code: i32,
    /// Message for people.
    pub message: String,
    /// Details, such as the invalid fields of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorDetail>,
}

/// Details of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum ErrorDetail {
    /// Invalid fields of the request.
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest(BadRequest),
    /// The reason of the error, for programs.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo(ErrorInfo),
}

/// The reason of an error, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorInfo {
    /// The reason in capitals, such as `TRIAL_LOST`.
    pub reason: Cow<'static, str>,
    /// The service that defines the reason.
    pub domain: Cow<'static, str>,
}

/// The invalid fields of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BadRequest {
    /// The invalid fields, each with the violated rule.
    pub field_violations: Vec<FieldViolation>,
}

/// An invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldViolation {
    /// Path of the field, such as `studyConfig.parameters[0].type`.
    pub field: String,
    /// What is wrong with the field.
    pub description: String,
}

impl FieldViolation {
    /// The violation of a rule, which `description` states, by `field`.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

impl From<FieldViolation> for tunesmith_domain::FieldViolation {
    fn from(FieldViolation { field, description }: FieldViolation) -> Self {
        Self { field, description }
    }
}

/// Details of a refusal: its invalid fields and its reason.
pub fn details(refusal: &Refusal) -> Vec<ErrorDetail> {
    let violations = refusal.violations.iter().map(|violation| FieldViolation::new(&violation.field, &violation.description));
    let field_violations: Vec<FieldViolation> = violations.collect();
    let mut details = Vec::new();
    if !field_violations.is_empty() {
        details.push(ErrorDetail::BadRequest(BadRequest { field_violations }));
    }
    if let Some(reason) = refusal.reason {
        details.push(ErrorDetail::ErrorInfo(ErrorInfo { reason: reason.into(), domain: "tunesmith".into() }));
    }
    details
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code.number(), details: details(&refusal), message: refusal.message }
    }
}
