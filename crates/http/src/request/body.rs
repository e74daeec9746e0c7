//! Request bodies, with errors that name the field.

use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::response::error::{ApiError, Code};
use tunesmith_admission::Admission;
use tunesmith_api::ai_platform::proto_json::{self, MessageError};

/// JSON body. An absent body is `{}`, since AI Platform clients omit an empty message.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = content_type_of(&request);
        if content_type.as_deref().is_some_and(is_json) {
            return message(request, state).await.map(Self);
        }
        let admission = admission(&request);
        if bytes(request, state).await?.is_empty() {
            return read(&[], admission.as_ref()).map(Self);
        }
        Err(other_content_type(content_type))
    }
}

/// Browsers send other content types than JSON on behalf of any web page, without a preflight request.
fn other_content_type(given: Option<String>) -> ApiError {
    let given = given.map_or_else(|| "absent".to_owned(), |text| format!("{text:?}"));
    let text = format!("the body must be JSON with content-type: application/json; the content type is {given}");
    ApiError::new(Code::InvalidArgument, text).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// JSON body of any content type, for simple clients in trial programs. Tokens authenticate them.
pub(crate) struct Report<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Report<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        message(request, state).await.map(Self)
    }
}

/// Reads the message in the body of `request`. Moves off the runtime for a large body, as does the rest of the handler.
async fn message<T: DeserializeOwned, S: Send + Sync>(request: Request, state: &S) -> Result<T, ApiError> {
    let admission = admission(&request);
    let bytes = bytes(request, state).await?;
    if let Some(admission) = &admission {
        admission.expect_input(bytes.len()).await;
    }
    read(&bytes, admission.as_ref())
}

fn admission(request: &Request) -> Option<Admission> {
    request.extensions().get().cloned()
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => too_large(),
        error => ApiError::new(Code::InvalidArgument, format!("the body cannot be read: {error}")),
    })
}

pub(crate) fn too_large() -> ApiError {
    ApiError::new(Code::InvalidArgument, "the body exceeds the size limit").with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

fn content_type_of(request: &Request) -> Option<String> {
    let content_type = request.headers().get(CONTENT_TYPE);
    content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Parses a message and lets the handler begin its change.
fn read<T: DeserializeOwned>(bytes: &[u8], admission: Option<&Admission>) -> Result<T, ApiError> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let message = proto_json::read(bytes).map_err(|error| match error {
        MessageError::Field { field, description } => ApiError::invalid(&field, description),
        other => ApiError::new(Code::InvalidArgument, other.to_string()),
    })?;
    if let Some(admission) = admission {
        admission.begin_change();
    }
    Ok(message)
}

/// A body that is passed on as it is, with its content type.
pub(crate) struct RawBody {
    pub(crate) content: Bytes,
    pub(crate) content_type: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = content_type_of(&request);
        let content = bytes(request, state).await?;
        if content.is_empty() || content_type.as_deref().is_some_and(|given| !is_of_any_page(given)) {
            return Ok(Self { content, content_type });
        }
        Err(other_content_type(content_type))
    }
}

/// Whether browsers send this content type on behalf of any web page.
fn is_of_any_page(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    matches!(essence.as_str(), "" | "text/plain" | "multipart/form-data" | "application/x-www-form-urlencoded")
}
