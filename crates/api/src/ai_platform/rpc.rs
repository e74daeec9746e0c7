//! Messages common to all Google services: empty messages and errors.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_domain::Refusal;

/// `google.protobuf.Empty`: an empty message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// Body of an error response.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorResponse {
    /// Error of the request.
    pub error: ErrorStatus,
}

impl ErrorResponse {
    /// Response for `refusal` with the HTTP status `code`.
    pub fn new(code: u16, refusal: &Refusal) -> Self {
        let (status, message) = (refusal.code.name(), refusal.message.clone());
        Self { error: ErrorStatus { code, status, details: details(refusal), message } }
    }
}

/// `google.rpc.Status`, in the form of an HTTP response.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorStatus {
    /// HTTP status.
    pub code: u16,
    /// Text for display.
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
    /// Number of the `google.rpc.Code`.
    pub code: i32,
    /// Text for display.
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
    /// Machine-readable reason of the error.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo(ErrorInfo),
}

/// Machine-readable reason of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorInfo {
    /// Reason in capitals, such as `TRIAL_LOST`.
    pub reason: Cow<'static, str>,
    /// Service that defines the reason.
    pub domain: Cow<'static, str>,
}

/// Invalid fields of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BadRequest {
    /// Invalid fields, each with the violated rule.
    pub field_violations: Vec<FieldViolation>,
}

/// Invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldViolation {
    /// Path of the field, such as `studyConfig.parameters[0].type`.
    pub field: String,
    /// Description of the violated rule.
    pub description: String,
}

impl FieldViolation {
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
    let violations =
        refusal.violations.iter().map(|violation| FieldViolation::new(&violation.field, &violation.description));
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
