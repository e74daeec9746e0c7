//! Errors as `google.rpc.Status`, the format of AI Platform clients.

use std::time::Duration;

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator};

use tunesmith_access::OverLimit;
pub(crate) use tunesmith_admission::Code;
use tunesmith_admission::Refusal;
use tunesmith_api::ai_platform::rpc::{
    BadRequest, ErrorDetail, ErrorInfo, ErrorResponse, ErrorStatus, FieldViolation, Status,
};
use tunesmith_api::ai_platform::{MAX_VIOLATIONS, with_omitted};
use tunesmith_domain::TransitionError;
use tunesmith_jobs::JobsError;
use tunesmith_jobs::{PlanPart, ReportError, SubmitError};
use tunesmith_store::StoreError;
use tunesmith_studies::StudiesError;
use tunesmith_studies::search_policy::SearchPolicyError;

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

    /// Error for invalid fields, naming the first [`MAX_VIOLATIONS`].
    pub(crate) fn violations(mut violations: Vec<FieldViolation>) -> Self {
        let omitted = violations.len().saturating_sub(MAX_VIOLATIONS);
        violations.truncate(MAX_VIOLATIONS);
        if let Some(last) = violations.last_mut().filter(|_| omitted > 0) {
            last.description = with_omitted(&last.description, omitted, "errors");
        }
        let messages = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.description));
        let message = messages.collect::<Vec<_>>().join("; ");
        let violations = violations
            .into_iter()
            .map(|FieldViolation { field, description }| tunesmith_admission::FieldViolation { field, description });
        Refusal { violations: violations.collect(), ..Refusal::new(Code::InvalidArgument, message) }.into()
    }

    /// Overrides the HTTP status of the code.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Adds a machine-readable reason.
    pub(crate) fn because(self, reason: &'static str) -> Self {
        Self { refusal: Refusal { reason: Some(reason), ..self.refusal }, ..self }
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
        Status { code: self.refusal.code.number(), details: self.details(), message: self.refusal.message }
    }

    fn details(&self) -> Vec<ErrorDetail> {
        let violations = self.refusal.violations.iter().map(|violation| FieldViolation {
            field: violation.field.clone(),
            description: violation.description.clone(),
        });
        let field_violations: Vec<FieldViolation> = violations.collect();
        let mut details = Vec::new();
        if !field_violations.is_empty() {
            details.push(ErrorDetail::BadRequest(BadRequest { field_violations }));
        }
        if let Some(reason) = self.refusal.reason {
            details.push(ErrorDetail::ErrorInfo(ErrorInfo { reason: reason.into(), domain: "tunesmith".into() }));
        }
        details
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, status: None }
    }
}

impl From<OverLimit> for ApiError {
    fn from(error: OverLimit) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, details) = (self.http_status(), self.details());
        let Refusal { code, message, retry_after, .. } = self.refusal;
        let error = ErrorStatus { code: status.as_u16(), status: code.name(), details, message };
        let mut response = (status, Json(ErrorResponse { error })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = retry_after {
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

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::NotRunning(_) => Self::new(Code::FailedPrecondition, error.to_string()),
            ReportError::WrongToken(_) => Self::new(Code::Unauthenticated, error.to_string()),
            ReportError::Store(error) => error.into(),
        }
    }
}

impl From<FieldViolation> for ApiError {
    fn from(violation: FieldViolation) -> Self {
        Self::violations(vec![violation])
    }
}

impl From<StudiesError> for ApiError {
    fn from(error: StudiesError) -> Self {
        Self::from(&error)
    }
}

impl From<&StudiesError> for ApiError {
    fn from(error: &StudiesError) -> Self {
        match error {
            StudiesError::Store(error) => error.into(),
            StudiesError::Interrupted { .. } => {
                tracing::error!(error = error as &dyn std::error::Error, "a computation was interrupted");
                Self::new(Code::Internal, error.to_string())
            }
            StudiesError::Cancelled(_) => Self::new(Code::Cancelled, error.to_string()),
            StudiesError::NoSuggestion(SearchPolicyError::TooLong { .. }) => {
                Self::new(Code::DeadlineExceeded, error.to_string())
            }
            StudiesError::NoSuggestion(_) => {
                tracing::error!(error = error as &dyn std::error::Error, "no suggestion could be computed");
                Self::new(Code::Internal, error.to_string())
            }
            StudiesError::Pending(_) => {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "a suggestion cannot be continued after a restart"
                );
                Self::new(Code::Unavailable, error.to_string())
            }
            StudiesError::OfJob(_) | StudiesError::NoMeasurement(_) | StudiesError::NoCompleteMeasurement { .. } => {
                Self::new(Code::FailedPrecondition, error.to_string())
            }
            StudiesError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            StudiesError::MissingMetric { .. } => Self::invalid("finalMeasurement.metrics", error.to_string()),
        }
    }
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::Store(error) | JobsError::Submit(SubmitError::Store(error)) => error.into(),
            JobsError::Submit(error @ SubmitError::NoSuchPreviousJob(_)) => {
                Self::invalid("trainingInput.hyperparameters.resumePreviousJobId", error.to_string())
            }
            JobsError::Submit(SubmitError::NotRunnable(problems)) => {
                let violations = problems.into_iter().map(|problem| {
                    let field = match problem.part {
                        PlanPart::Command => "trainingInput.masterConfig.containerCommand",
                        PlanPart::Packages => "trainingInput.packageUris",
                        PlanPart::JobDir => "trainingInput.jobDir",
                    };
                    FieldViolation { field: field.to_owned(), description: problem.message }
                });
                Self::violations(violations.collect())
            }
            JobsError::Submit(error @ SubmitError::Impossible(_)) => Self::invalid("trainingInput", error.to_string()),
            JobsError::QueueFull(_) => Self::new(Code::ResourceExhausted, error.to_string()),
            JobsError::Submit(error) => Self::new(Code::AlreadyExists, error.to_string()),
            JobsError::Running { .. }
            | JobsError::NothingToRetry(_)
            | JobsError::Needed { .. }
            | JobsError::NoStudy(_)
            | JobsError::NoTrialLeft { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            JobsError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            JobsError::Folder { .. } | JobsError::Logs(_) | JobsError::Executor(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a job cannot be read or changed");
                Self::new(Code::Internal, format!("{error}; see the server's log"))
            }
            JobsError::Plan(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a job's plan cannot be read");
                Self::new(Code::Internal, error.to_string())
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<&StoreError> for ApiError {
    fn from(error: &StoreError) -> Self {
        if let Some(fault) = error.fault() {
            tracing::error!(error = error as &dyn std::error::Error, "the store takes no changes");
            let wait = Duration::from_secs(1);
            let refusal = Refusal::new(Code::Unavailable, format!("{error}: {fault}"));
            return Refusal { retry_after: Some(wait), ..refusal }.into();
        }
        let code = match error {
            StoreError::NotFound { .. } => Code::NotFound,
            StoreError::AlreadyExists { .. } => Code::AlreadyExists,
            StoreError::TrialIdTaken { .. } | StoreError::NotOwner { .. } => Code::Aborted,
            StoreError::Refused(TransitionError::BadMeasurement { .. }) => Code::InvalidArgument,
            StoreError::Refused(TransitionError::Outdated { .. }) => Code::Aborted,
            StoreError::Refused(_) => Code::FailedPrecondition,
            StoreError::Damaged { .. }
            | StoreError::TooNew { .. }
            | StoreError::BeforeRelease { .. }
            | StoreError::InUse { .. }
            | StoreError::NotApplied { .. }
            | StoreError::Unknown { .. } => {
                tracing::error!(error = error as &dyn std::error::Error, "the store failed");
                return Self::new(Code::Internal, "the store failed; see the server's log");
            }
        };
        let is_lost =
            matches!(error, StoreError::Refused(TransitionError::Fenced { .. } | TransitionError::LeaseExpired { .. }));
        Refusal { reason: is_lost.then_some("TRIAL_LOST"), ..Refusal::new(code, error.to_string()) }.into()
    }
}
