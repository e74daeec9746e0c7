//! JSON responses rendered on a blocking thread or streamed in chunks.

use std::marker::PhantomData;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use tunesmith_admission::long_work;

use crate::response::error::{ApiError, Code};

/// Maximum number of trials or studies to render on the request's thread (a guess: 1 ms).
const FEW_RESOURCES: usize = 200;

pub(crate) struct Rendered<T> {
    body: Body,
    of: PhantomData<fn() -> T>,
}

impl<T> Rendered<T> {
    /// Response with the output of [`render`].
    pub(crate) fn new(json: Bytes) -> Self {
        Self { body: json.into(), of: PhantomData }
    }

    /// Streams a response, or sends it whole if there is only one chunk. A later failure closes the connection early,
    /// so that the client does not mistake the response for a complete one. The first two chunks are rendered before
    /// this function returns, so that their errors are still responses.
    ///
    /// # Errors
    /// The error of one of the first two chunks.
    pub(crate) async fn in_parts(
        parts: impl Stream<Item = Result<Bytes, ApiError>> + Send + 'static,
    ) -> Result<Self, ApiError> {
        let mut parts = Box::pin(parts);
        let Some(first) = parts.try_next().await? else { return Ok(Self::new(Bytes::new())) };
        let Some(second) = parts.try_next().await? else { return Ok(Self::new(first)) };
        let rest = parts.map(|part| {
            part.map_err(|error| {
                let text = error.refusal().message.clone();
                tracing::error!(error = text, "an answer ended early");
                std::io::Error::other(text)
            })
        });
        Ok(Self { body: Body::from_stream(stream::iter([Ok(first), Ok(second)]).chain(rest)), of: PhantomData })
    }
}

impl<T: Serialize> Rendered<T> {
    /// Renders `message`, on a blocking thread above [`FEW_RESOURCES`].
    ///
    /// # Errors
    /// As [`render`].
    pub(crate) async fn of(resources: usize, message: impl FnOnce() -> T + Send + 'static) -> Result<Self, ApiError> {
        if resources <= FEW_RESOURCES {
            return render(&message()).map(Self::new);
        }
        let _permit = long_work::permit().await;
        render_off_the_runtime(message).await.map(Self::new)
    }
}

impl<T> IntoResponse for Rendered<T> {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.body).into_response()
    }
}

/// Renders `message` as JSON.
///
/// # Errors
/// [`Code::Internal`] if serialization fails.
pub(crate) fn render(message: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(message).map(Bytes::from).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "an answer cannot be rendered");
        ApiError::new(Code::Internal, "the answer cannot be rendered; see the server's log")
    })
}

/// Computes and renders `message` on a blocking thread.
///
/// # Errors
/// As [`render`].
pub(crate) async fn render_off_the_runtime<T: Serialize>(
    message: impl FnOnce() -> T + Send + 'static,
) -> Result<Bytes, ApiError> {
    long_work::off_the_runtime(move || render(&message())).await?
}
