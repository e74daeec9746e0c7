//! Errors as `google.rpc.Status`, the format of AI Platform clients.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator};

use tunesmith_api::ai_platform::rpc::{ErrorResponse, FieldViolation, Status};
pub(crate) use tunesmith_domain::Code;
use tunesmith_domain::Refusal;
use tunesmith_jobs::{JobsError, ReportError};
use tunesmith_store::StoreError;
use tunesmith_studies::StudiesError;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    refusal: Refusal,
    /// HTTP status, if it differs from the default of the code.
    status: Option<StatusCode>,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Refusal::new(code, message).into()
    }

    pub(crate) fn invalid(field: &str, description: impl Into<String>) -> Self {
        Refusal::invalid(field, description).into()
    }

    pub(crate) fn violations(violations: impl IntoIterator<Item = FieldViolation>) -> Self {
        Refusal::violations(violations.into_iter().map(Into::into)).into()
    }

    /// Overrides the HTTP status of the code.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Adds a machine-readable reason.
    pub(crate) fn because(self, reason: &'static str) -> Self {
        Self { refusal: self.refusal.because(reason), ..self }
    }

    pub(crate) fn http_status(&self) -> StatusCode {
        let of_code = || StatusCode::from_u16(self.refusal.code.http_status());
        self.status.unwrap_or_else(|| of_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }

    pub(crate) fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// Converts the error into the `google.rpc.Status` of an operation.
    pub(crate) fn status(self) -> Status {
        self.refusal.into()
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, status: None }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.http_status();
        let mut response = (status, Json(ErrorResponse::new(status.as_u16(), &self.refusal))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.refusal.retry_after {
            // Rounded up to whole seconds.
            let seconds = wait.as_secs_f64().ceil() as u64;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

pub(crate) fn error_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<ErrorResponse>()
}

impl From<FieldViolation> for ApiError {
    fn from(violation: FieldViolation) -> Self {
        Self::violations([violation])
    }
}

/// Errors of use cases, as refusals.
macro_rules! refused {
    ($($error:ty),*) => {
        $(impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Refusal::from(error).into()
            }
        })*
    };
}

refused!(JobsError, StoreError, StudiesError, &StudiesError);

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::NotRunning(_) => Self::new(Code::FailedPrecondition, error.to_string()),
            ReportError::WrongToken(_) => Self::new(Code::Unauthenticated, error.to_string()),
            ReportError::Store(error) => error.into(),
        }
    }
}
