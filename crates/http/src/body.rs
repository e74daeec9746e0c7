//! Reading request bodies, with errors that name the field.

use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::large_requests::Progress;
use super::status::{ApiError, Code};
use tunesmith_api::ai_platform::proto_json::{self, MessageError};

/// A JSON body. An absent body is `{}`, since AI Platform's clients omit an empty message.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE);
        let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        if content_type.as_deref().is_some_and(is_json) {
            return message(request, state).await.map(Self);
        }
        let progress = progress(&request);
        if bytes(request, state).await?.is_empty() {
            return read(&[], progress.as_ref()).map(Self);
        }
        // Browsers send bodies of other types for any web page without asking the server first.
        let given = content_type.map_or_else(|| "absent".to_owned(), |text| format!("{text:?}"));
        let text = format!("the body must be JSON with content-type: application/json; the content type is {given}");
        Err(ApiError::new(Code::UnsupportedMediaType, text))
    }
}

/// A JSON body of any content type: programs of trials may report with simple clients. They are known by their tokens.
pub(super) struct Report<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Report<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        message(request, state).await.map(Self)
    }
}

/// The message in the body of `request`. A large one is parsed off the runtime, as all that follows in the handler.
async fn message<T: DeserializeOwned, S: Send + Sync>(request: Request, state: &S) -> Result<T, ApiError> {
    let progress = progress(&request);
    let bytes = bytes(request, state).await?;
    if let Some(progress) = &progress {
        progress.expect(bytes.len()).await;
    }
    read(&bytes, progress.as_ref())
}

/// Progress of the handler of `request`.
fn progress(request: &Request) -> Option<Progress> {
    request.extensions().get().cloned()
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => too_large(),
        error => ApiError::new(Code::InvalidArgument, format!("the body cannot be read: {error}")),
    })
}

/// The error for a body that exceeds the size limit.
pub(super) fn too_large() -> ApiError {
    ApiError::new(Code::PayloadTooLarge, "the body exceeds the size limit")
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The message `bytes`, with which its handler may begin to change something.
fn read<T: DeserializeOwned>(bytes: &[u8], progress: Option<&Progress>) -> Result<T, ApiError> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let message = proto_json::read(bytes).map_err(|error| match error {
        MessageError::Field { field, description } => ApiError::invalid(&field, description),
        other => ApiError::new(Code::InvalidArgument, other.to_string()),
    })?;
    if let Some(progress) = progress {
        progress.begin_change();
    }
    Ok(message)
}
