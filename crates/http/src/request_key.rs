//! `Idempotency-Key`: a client's name for a change that it may request more than once.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::status::ApiError;

const HEADER: &str = "idempotency-key";

/// Maximum length of a key.
const MAX_LENGTH: usize = 64;

/// The key of a request, if it has one. Repeated requests with the same key have one effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestKey(pub(super) Option<String>);

impl<S: Sync> FromRequestParts<S> for RequestKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(HEADER) else { return Ok(Self(None)) };
        let key = value.to_str().unwrap_or_default();
        if key.is_empty() || key.len() > MAX_LENGTH || !key.chars().all(|c| c.is_ascii_graphic()) {
            let text = format!("must be 1 to {MAX_LENGTH} printable ASCII characters without spaces");
            return Err(ApiError::invalid("Idempotency-Key", text));
        }
        Ok(Self(Some(key.to_owned())))
    }
}
