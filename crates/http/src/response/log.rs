//! Outermost middleware: identifies the client of every request, counts it and logs it.

use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use tracing::Instrument;
use tunesmith_admission::UseCase;
use tunesmith_telemetry::telemetry;

use crate::request::client::{REQUEST_ID, client};

/// Maximum length of a logged path in bytes, above that of any valid path. Clients can send longer ones.
const MAX_PATH_LENGTH: usize = 2048;

/// Runs `handle`, counts the request and logs it under its ID. The response carries the called [`UseCase`] as an
/// extension.
pub(crate) async fn respond(mut request: Request, handle: impl AsyncFnOnce(Request) -> Response) -> Response {
    let begin = Instant::now();
    let client = client(&request);
    let id = client.request_id.clone();
    request.extensions_mut().insert(client);
    let path = request.uri().path();
    let span = tracing::info_span!(
        "request",
        request.id = id,
        http.method = %request.method(),
        // A longer path is invalid, and ASCII, so any cut-off point will do.
        http.path = path.get(..MAX_PATH_LENGTH).unwrap_or(path)
    );
    let mut response = handle(request).instrument(span.clone()).await;
    let method = response.extensions().get::<UseCase>().map_or("unknown", |use_case| use_case.name());
    let status = response.status().as_u16();
    let time = begin.elapsed();
    telemetry().request(method, status, time);
    span.in_scope(|| {
        tracing::info!(api.method = method, http.status = status, seconds = time.as_secs_f64(), "answered")
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}
