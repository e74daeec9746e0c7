//! Requests to the service, its responses, and their fields.

use axum::body::Bytes;
use axum::http::Method;
use indicatif::ProgressBar;
use serde_json::Value;

/// One request.
pub(super) struct Request {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    pub(super) payload: Payload,
}

/// The body of a request.
pub(super) enum Payload {
    None,
    Json(Value),
    /// A file, with the display of its progress.
    File(Bytes, ProgressBar),
}

/// A response.
pub(super) struct Answer {
    pub(super) status: u16,
    /// ID of the request in the log of the server.
    pub(super) request_id: Option<String>,
    pub(super) body: Bytes,
}

/// Returns the text in the field `key` of a message; empty if there is none.
pub(super) fn text<'a>(message: &'a Value, key: &str) -> &'a str {
    message[key].as_str().unwrap_or_default()
}

/// Returns the list in the field `key` of a message; empty if there is none.
pub(super) fn list<'a>(message: &'a Value, key: &str) -> &'a [Value] {
    message[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the last segment of a resource name.
pub(super) fn last_segment(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
