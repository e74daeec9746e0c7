//! Reading request bodies, with errors that name the field.

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::status::{ApiError, Code};

/// A JSON body. An absent one is `{}`, as AI Platform's clients leave it out where it says nothing.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("").to_owned());
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|error| ApiError::new(Code::InvalidArgument, format!("the body cannot be read: {error}")))?;
        if bytes.is_empty() {
            return read(b"{}").map(Self);
        }
        match content_type {
            Some(text) if !is_json(&text) => Err(ApiError::new(
                Code::InvalidArgument,
                format!("the body must be JSON (content-type: application/json), not {text:?}"),
            )),
            _ => read(&bytes).map(Self),
        }
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The message in `bytes`.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = error.path().to_string();
        let cause = error.into_inner();
        if field == "." {
            ApiError::new(Code::InvalidArgument, format!("the body is not as expected: {cause}"))
        } else {
            ApiError::invalid(&field, cause.to_string())
        }
    })?;
    deserializer
        .end()
        .map_err(|error| ApiError::new(Code::InvalidArgument, format!("something follows the JSON body: {error}")))?;
    Ok(value)
}

/// `body` as a message.
pub(super) fn typed<T: DeserializeOwned>(body: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let field = error.path().to_string();
        ApiError::invalid(if field == "." { "body" } else { &field }, error.into_inner().to_string())
    })
}
