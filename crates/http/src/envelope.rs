//! What holds for every request: it has an ID, it is answered in time, it is carried to its end, and it is counted.

use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use super::call::{UPLOAD, identify};
use super::gate::MethodName;
use super::request_id::{self, RequestId};
use super::status::{ApiError, Code};
use tunesmith_telemetry::telemetry;

/// So many times longer than other requests an upload may take.
const UPLOAD_FACTOR: u32 = 10;

/// Answers a request within `limit`, an upload within [`UPLOAD_FACTOR`] times as long.
///
/// What it began goes on to its end in any case, also if the client has gone or the time is over: no change is left half
/// done. A panic is a fault of the service, told as such, and harms no other request.
pub(super) async fn answer(State(limit): State<Duration>, mut request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let (http, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", request.id = id.as_str(), http.method = %http, http.path = path);
    let is_upload = identify(&http, &path).is_some_and(|call| call.method == UPLOAD);
    let limit = if is_upload { limit * UPLOAD_FACTOR } else { limit };
    let work = tokio::spawn(next.run(request).instrument(span.clone()));
    let mut response = match tokio::time::timeout(limit, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            span.in_scope(|| tracing::error!("a request led to a panic"));
            ApiError::new(Code::Internal, "the service failed; its log says more").into_response()
        }
        Err(_) => {
            let text = format!("there was no answer within {limit:?}; what was asked for may still happen");
            ApiError::new(Code::DeadlineExceeded, text).into_response()
        }
    };
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
