//! Reading query parameters, with errors in the service's form.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::status::{ApiError, Code};

/// The parameters of a request's query.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            // Its text names the parameter and what is wrong with it.
            Err(error) => Err(ApiError::new(Code::InvalidArgument, error.body_text())),
        }
    }
}
