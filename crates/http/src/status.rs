//! Errors in the form of `google.rpc.Status`, as AI Platform's clients expect them.

use std::time::Duration;

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator};

use tunesmith_api::ai_platform::rpc::{
    BadRequest, ErrorAnswer, ErrorDetail, ErrorInfo, ErrorStatus, FieldViolation, Status,
};
use tunesmith_api::ai_platform::{MAX_VIOLATIONS, with_omitted};
use tunesmith_domain::TransitionError;
use tunesmith_service::jobs::JobsError;
use tunesmith_service::search_policy::SearchPolicyError;
use tunesmith_service::studies::StudiesError;
use tunesmith_service::{PlanPart, ReportError, SubmitError};
use tunesmith_store::StoreError;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApiError {
    code: Code,
    message: String,
    /// The invalid fields of the request, with the violated rules.
    violations: Vec<FieldViolation>,
    /// Delay before a repeated request.
    retry_after: Option<Duration>,
    /// The reason of a `google.rpc.ErrorInfo`, for programs.
    reason: Option<&'static str>,
}

/// The codes of `google.rpc.Code` in responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// The request is invalid in any state.
    InvalidArgument,
    /// The state does not allow the request.
    FailedPrecondition,
    /// The caller lacks a permission.
    PermissionDenied,
    /// The caller exceeds a limit.
    ResourceExhausted,
    /// The server is temporarily unable to respond.
    Unavailable,
    /// The time limit was exceeded.
    DeadlineExceeded,
    /// The caller has cancelled the operation.
    Cancelled,
    /// The caller is not authenticated.
    Unauthenticated,
    /// The resource does not exist.
    NotFound,
    /// The resource exists already.
    AlreadyExists,
    /// A concurrent change was made first; the client may try again.
    Aborted,
    /// The body is too large: `INVALID_ARGUMENT` with its own HTTP status.
    PayloadTooLarge,
    /// The body has an unsupported content type: `INVALID_ARGUMENT` with its own HTTP status.
    UnsupportedMediaType,
    /// The path exists, but not with this HTTP method: `UNIMPLEMENTED` with its own HTTP status.
    MethodNotAllowed,
    /// A failure of the server.
    Internal,
}

impl Code {
    fn http(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            // The status of `CANCELLED` in other APIs of Google; it has no name.
            Self::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::CONFLICT),
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument | Self::PayloadTooLarge | Self::UnsupportedMediaType => "INVALID_ARGUMENT",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::Cancelled => "CANCELLED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::Aborted => "ABORTED",
            Self::MethodNotAllowed => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
        }
    }

    /// The code with this [name](Self::name), as far as agents get it; [`Self::Unavailable`] for others.
    pub(super) fn of_name(name: &str) -> Self {
        let known = [Self::InvalidArgument, Self::FailedPrecondition, Self::Unauthenticated, Self::NotFound];
        known.into_iter().find(|code| code.name() == name).unwrap_or(Self::Unavailable)
    }

    /// The number of the code in `google.rpc.Code`.
    fn number(self) -> i32 {
        match self {
            Self::InvalidArgument | Self::PayloadTooLarge | Self::UnsupportedMediaType => 3,
            Self::Cancelled => 1,
            Self::DeadlineExceeded => 4,
            Self::NotFound => 5,
            Self::AlreadyExists => 6,
            Self::PermissionDenied => 7,
            Self::ResourceExhausted => 8,
            Self::FailedPrecondition => 9,
            Self::Aborted => 10,
            Self::MethodNotAllowed => 12,
            Self::Internal => 13,
            Self::Unavailable => 14,
            Self::Unauthenticated => 16,
        }
    }
}

impl ApiError {
    /// The HTTP status of the response.
    pub(super) fn http_status(&self) -> StatusCode {
        self.code.http()
    }

    /// The code.
    pub(super) fn code(&self) -> Code {
        self.code
    }

    /// The message for people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// An error with a message for people.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new(), retry_after: None, reason: None }
    }

    /// The error for an invalid `field`.
    pub(super) fn invalid(field: &str, description: impl Into<String>) -> Self {
        Self::violations(vec![FieldViolation { field: field.to_owned(), description: description.into() }])
    }

    /// The error for invalid fields, of which the first [`MAX_VIOLATIONS`] are named.
    pub(super) fn violations(mut violations: Vec<FieldViolation>) -> Self {
        let omitted = violations.len().saturating_sub(MAX_VIOLATIONS);
        violations.truncate(MAX_VIOLATIONS);
        if let Some(last) = violations.last_mut().filter(|_| omitted > 0) {
            last.description = with_omitted(&last.description, omitted, "errors");
        }
        let messages = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.description));
        Self {
            code: Code::InvalidArgument,
            message: messages.collect::<Vec<_>>().join("; "),
            violations,
            retry_after: None,
            reason: None,
        }
    }

    /// The error for a request whose time `limit` is over, and whose handler `continues`.
    pub(super) fn timed_out(limit: Duration, continues: bool) -> Self {
        let outcome = if continues { "the request may still take effect" } else { "nothing was changed" };
        Self::new(Code::DeadlineExceeded, format!("no response within {limit:?}; {outcome}"))
    }

    /// Adds a recommended delay before a repeated request.
    pub(super) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Adds the reason, for programs.
    pub(super) fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The error as `google.rpc.Status`, for an operation.
    pub(super) fn status(self) -> Status {
        Status { code: self.code.number(), details: self.details(), message: self.message }
    }

    fn details(&self) -> Vec<ErrorDetail> {
        let mut details = Vec::new();
        if !self.violations.is_empty() {
            details.push(ErrorDetail::BadRequest(BadRequest { field_violations: self.violations.clone() }));
        }
        if let Some(reason) = self.reason {
            details.push(ErrorDetail::ErrorInfo(ErrorInfo { reason, domain: "tunesmith" }));
        }
        details
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.code.http();
        let details = self.details();
        let error = ErrorStatus { code: status.as_u16(), status: self.code.name(), details, message: self.message };
        let mut response = (status, Json(ErrorAnswer { error })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after {
            // Rounded up to whole seconds.
            let seconds = wait.as_secs_f64().ceil() as u64;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The schema of error responses.
pub(super) fn error_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<ErrorAnswer>()
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
            StudiesError::Cancelled { .. } => Self::new(Code::Cancelled, error.to_string()),
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
            StudiesError::OfJob { .. }
            | StudiesError::NoMeasurement { .. }
            | StudiesError::NoCompleteMeasurement { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            StudiesError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            StudiesError::MissingMetric { .. } => Self::invalid("finalMeasurement.metrics", error.to_string()),
        }
    }
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::Store(error) | JobsError::Submit(SubmitError::Store(error)) => error.into(),
            JobsError::Submit(error @ SubmitError::NoSuchPreviousJob { .. }) => {
                Self::invalid("trainingInput.hyperparameters.resumePreviousJobId", error.to_string())
            }
            JobsError::Submit(SubmitError::NotRunnable { problems }) => {
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
            JobsError::Submit(error @ SubmitError::Impossible { .. }) => {
                Self::invalid("trainingInput", error.to_string())
            }
            JobsError::QueueFull { .. } => Self::new(Code::ResourceExhausted, error.to_string()),
            JobsError::Submit(error) => Self::new(Code::AlreadyExists, error.to_string()),
            JobsError::Running { .. }
            | JobsError::NothingToRetry { .. }
            | JobsError::Needed { .. }
            | JobsError::NoStudy { .. }
            | JobsError::NoTrialLeft { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            JobsError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            JobsError::Folder { .. } | JobsError::Executor(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a job cannot be changed");
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
            return Self::new(Code::Unavailable, format!("{error}: {fault}")).retry_after(wait);
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
            | StoreError::InUse { .. }
            | StoreError::NotApplied { .. }
            | StoreError::Unknown { .. } => {
                tracing::error!(error = error as &dyn std::error::Error, "the store failed");
                return Self::new(Code::Internal, "the store failed; see the server's log");
            }
        };
        let is_lost =
            matches!(error, StoreError::Refused(TransitionError::Fenced { .. } | TransitionError::LeaseExpired { .. }));
        Self { reason: is_lost.then_some("TRIAL_LOST"), ..Self::new(code, error.to_string()) }
    }
}
