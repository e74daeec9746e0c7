//! The outermost layer: assigns an ID to every request, counts it and logs it.

use std::time::Instant;

use axum::extract::Request;
use axum::response::Response;
use tracing::Instrument;

use super::request_id::{self, RequestId};
use tunesmith_telemetry::telemetry;

/// Maximum length of a path in the log, in bytes; above that of any valid one. Any client can send longer ones.
const MAX_PATH_LENGTH: usize = 2048;

/// The name of the method that answered, as an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodName(pub(super) &'static str);

/// Handles a request by `handle`, counts it, and logs it under its ID.
pub(super) async fn answer(mut request: Request, handle: impl AsyncFnOnce(Request) -> Response) -> Response {
    let begin = Instant::now();
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let span = tracing::info_span!(
        "request",
        request.id = id.as_str(),
        http.method = %request.method(),
        http.path = shown(request.uri().path())
    );
    let mut response = handle(request).instrument(span.clone()).await;
    let method = response.extensions().get::<MethodName>().map_or("unknown", |name| name.0);
    let status = response.status().as_u16();
    let time = begin.elapsed();
    telemetry().request(method, status, time);
    span.in_scope(|| {
        tracing::info!(api.method = method, http.status = status, seconds = time.as_secs_f64(), "answered")
    });
    if let Some(value) = id.header_value() {
        response.headers_mut().insert(request_id::HEADER, value);
    }
    response
}

fn shown(path: &str) -> &str {
    // A path that is longer is not a valid one, so that it may be cut off anywhere; it is ASCII.
    path.get(..MAX_PATH_LENGTH).unwrap_or(path)
}
