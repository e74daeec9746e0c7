//! Answers whose JSON is made before, or while, they are sent: on a blocking thread, or in parts.

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::status::{ApiError, Code};

/// Number of trials or studies up to which an answer is rendered on the thread of its request (a guess: 1 ms).
const FEW_RESOURCES: usize = 200;

/// Permission to make a part of a long answer, or to take a step of a large request. Half of the processors remain free for
/// short ones, which otherwise wait behind a part of every long answer each time they wait for the store.
static RENDERERS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(renderers()));

/// Number of long answers and large requests that are worked on at once.
pub(super) fn renderers() -> usize {
    (processors() / 2).max(1)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Waits until a part of a long answer may be made, which the permit allows until it is dropped.
pub(super) async fn permit_to_render() -> SemaphorePermit<'static> {
    RENDERERS.acquire().await.expect("the semaphore is never closed")
}

/// The JSON of a `T`.
pub(super) struct Rendered<T> {
    body: Body,
    of: PhantomData<fn() -> T>,
}

impl<T> Rendered<T> {
    /// An answer of this JSON, as [`render`] returns it.
    pub(super) fn new(json: Bytes) -> Self {
        Self { body: json.into(), of: PhantomData }
    }

    /// An answer that is sent in parts, or as a whole if there is only one. If a part fails, the connection is closed before
    /// the end of the answer, so that the client does not take it for a complete one. The first two parts are made before
    /// this function returns: their errors are still answers.
    ///
    /// # Errors
    /// The error of one of the first two parts.
    pub(super) async fn in_parts(
        parts: impl Stream<Item = Result<Bytes, ApiError>> + Send + 'static,
    ) -> Result<Self, ApiError> {
        let mut parts = Box::pin(parts);
        let Some(first) = parts.try_next().await? else { return Ok(Self::new(Bytes::new())) };
        let Some(second) = parts.try_next().await? else { return Ok(Self::new(first)) };
        let rest = parts.map(|part| {
            part.map_err(|error| {
                let text = error.status().message;
                tracing::error!(error = text, "an answer ended early");
                std::io::Error::other(text)
            })
        });
        Ok(Self { body: Body::from_stream(stream::iter([Ok(first), Ok(second)]).chain(rest)), of: PhantomData })
    }
}

impl<T: Serialize> Rendered<T> {
    /// The answer `message`; one with more than [`FEW_RESOURCES`] is made and rendered on a blocking thread.
    ///
    /// # Errors
    /// As [`render`].
    pub(super) async fn of(resources: usize, message: impl FnOnce() -> T + Send + 'static) -> Result<Self, ApiError> {
        if resources <= FEW_RESOURCES {
            return render(&message()).map(Self::new);
        }
        let _permit = permit_to_render().await;
        render_off_the_runtime(message).await.map(Self::new)
    }
}

impl<T> IntoResponse for Rendered<T> {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.body).into_response()
    }
}

/// The JSON of `message`.
///
/// # Errors
/// [`Code::Internal`] if it cannot be rendered.
pub(super) fn render(message: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(message).map(Bytes::from).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "an answer cannot be rendered");
        ApiError::new(Code::Internal, "the answer cannot be rendered; see the server's log")
    })
}

/// The JSON of the result of `message`, made and rendered on a blocking thread.
///
/// # Errors
/// As [`render`].
pub(super) async fn render_off_the_runtime<T: Serialize>(
    message: impl FnOnce() -> T + Send + 'static,
) -> Result<Bytes, ApiError> {
    let rendering = tokio::task::spawn_blocking(move || render(&message())).await;
    rendering.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "an answer was not rendered");
        Err(ApiError::new(Code::Internal, "the answer cannot be rendered; see the server's log"))
    })
}
