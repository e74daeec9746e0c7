//! Refusals as responses of gRPC and of HTTP.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use prost::{Message, Name};
use prost_types::Any;
use tonic::Code;
use tunesmith_api::ai_platform::rpc::{self, ErrorResponse};
use tunesmith_domain::Refusal;
use tunesmith_vizier::messages::rpc::bad_request::FieldViolation;
use tunesmith_vizier::messages::rpc::{BadRequest, ErrorInfo, RetryInfo, Status};
use tunesmith_vizier::{Version, duration};

/// Header and gRPC metadata with notices.
pub(crate) const NOTICE: &str = "tunesmith-notice";

/// Violations of `ml v1`'s rules.
pub(crate) fn violations(violations: Vec<rpc::FieldViolation>) -> Refusal {
    Refusal::violations(violations.into_iter().map(Into::into))
}

pub(crate) fn violation(violation: rpc::FieldViolation) -> Refusal {
    violations(vec![violation])
}

/// `google.rpc.Status` of `refusal`, with details.
pub(crate) fn status_message(refusal: &Refusal) -> Status {
    let mut details = Vec::new();
    if !refusal.violations.is_empty() {
        let of_domain = refusal.violations.iter();
        let field_violations =
            of_domain.map(|it| FieldViolation { field: it.field.clone(), description: it.description.clone() });
        details.push(any(&BadRequest { field_violations: field_violations.collect() }));
    }
    if let Some(reason) = refusal.reason {
        details.push(any(&ErrorInfo { reason: reason.to_owned(), domain: "tunesmith".to_owned() }));
    }
    if let Some(wait) = refusal.retry_after {
        details.push(any(&RetryInfo { retry_delay: Some(duration(wait)) }));
    }
    Status { code: refusal.code.number(), message: refusal.message.clone(), details }
}

/// `message` as an `Any` with the type URL that Google's clients expect.
pub(crate) fn any<T: Message + Name>(message: &T) -> Any {
    any_of(Version::V1, message)
}

/// `message` as an `Any` with its type in `version`.
pub(crate) fn any_of<T: Message + Name>(version: Version, message: &T) -> Any {
    let name = version.message(&T::full_name());
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

pub(crate) fn grpc_status(refusal: &Refusal) -> tonic::Status {
    let message = status_message(refusal);
    let details = Bytes::from(message.encode_to_vec());
    tonic::Status::with_details(Code::from_i32(message.code), message.message, details)
}

pub(crate) fn http_response(refusal: &Refusal) -> Response {
    with_status(refusal, refusal.code.http_status())
}

pub(crate) fn with_status(refusal: &Refusal, status: u16) -> Response {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (code, Json(ErrorResponse::new(status, refusal))).into_response();
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = refusal.retry_after {
        // Rounded up to whole seconds.
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs_f64().ceil() as u64));
    }
    response
}

/// `notices` as the value of [`NOTICE`]; `None` without any.
pub(crate) fn notice(notices: &[String]) -> Option<HeaderValue> {
    if notices.is_empty() {
        return None;
    }
    // Names of users may have other characters.
    let text: String =
        notices.join("; ").chars().map(|c| if c.is_ascii() && !c.is_control() { c } else { '?' }).collect();
    HeaderValue::from_str(&text).ok()
}
