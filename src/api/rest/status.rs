//! Errors in the form of `google.rpc.Status`, as AI Platform's clients expect them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::domain::TransitionError;
use crate::service::ReportError;
use crate::store::StoreError;

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    code: Code,
    message: String,
    /// The field of the request that is wrong, and the rule it breaks.
    violation: Option<(String, String)>,
}

/// The `google.rpc.Code`s that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong whatever the state.
    InvalidArgument,
    /// The state does not allow the request.
    FailedPrecondition,
    /// The caller did not say who it is, or not convincingly.
    Unauthenticated,
    /// There is no such thing.
    NotFound,
    /// There is such a thing already.
    AlreadyExists,
    /// Somebody else was faster; try again.
    Aborted,
    /// A fault on this side.
    Internal,
}

impl Code {
    fn http(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::Aborted => "ABORTED",
            Self::Internal => "INTERNAL",
        }
    }
}

impl ApiError {
    /// An error with a text for people.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violation: None }
    }

    /// A request whose `field` breaks a rule.
    pub fn invalid(field: &str, description: impl Into<String>) -> Self {
        let description = description.into();
        let message = format!("{field}: {description}");
        Self { code: Code::InvalidArgument, message, violation: Some((field.to_owned(), description)) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.code.http();
        let mut error = json!({"code": status.as_u16(), "message": self.message, "status": self.code.name()});
        if let Some((field, description)) = self.violation {
            error["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": field, "description": description}],
            }]);
        }
        (status, Json(json!({"error": error}))).into_response()
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::NotRunning { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            ReportError::WrongToken { .. } => Self::new(Code::Unauthenticated, error.to_string()),
            ReportError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotFound { .. } => Code::NotFound,
            StoreError::AlreadyExists { .. } => Code::AlreadyExists,
            StoreError::TrialIdTaken { .. } => Code::Aborted,
            StoreError::Refused(TransitionError::BadMeasurement { .. }) => Code::InvalidArgument,
            StoreError::Refused(_) => Code::FailedPrecondition,
            StoreError::Damaged { .. }
            | StoreError::TooNew { .. }
            | StoreError::NotApplied { .. }
            | StoreError::Unknown { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
                return Self::new(Code::Internal, "the store failed; the server's log says more");
            }
        };
        Self::new(code, error.to_string())
    }
}
