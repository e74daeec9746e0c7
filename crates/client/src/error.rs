use serde::Deserialize;
use tunesmith_api::ai_platform::rpc::FieldViolation;

use super::TOKEN_VARIABLE;

/// A failed request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An error response.
    #[error("{}", .0.lines().join("\n"))]
    Refused(Refusal),
    /// The server is unreachable, or its certificate is not trusted.
    #[error("the server {server} cannot be reached: {detail}")]
    Unreachable {
        server: String,
        /// Operating system error, or the remedy.
        detail: String,
    },
    /// A malformed response.
    #[error("unexpected response from {server}: {detail}")]
    Unexpected { server: String, detail: String },
    /// An unavailable console page.
    #[error("{reason} ({server} answered with status {status}){}", named(.request_id.as_deref()))]
    NoPage {
        /// Address of the server, or path of the data folder.
        server: String,
        status: u16,
        /// Request ID in the server's log.
        request_id: Option<String>,
        reason: String,
    },
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// Request ID in the server's log.
    pub request_id: Option<String>,
    pub code: String,
    /// Human-readable message.
    pub message: String,
    /// Machine-readable reason; may be empty.
    pub reason: String,
    pub violations: Vec<FieldViolation>,
}

/// Error response body, with details of any type.
#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorFields {
    message: String,
    status: String,
    details: Vec<Detail>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Detail {
    reason: String,
    field_violations: Vec<FieldViolation>,
}

impl Refusal {
    /// Parses an error response of `server`.
    pub(super) fn error(server: &str, status: u16, request_id: Option<String>, body: &[u8]) -> ClientError {
        let error = match serde_json::from_slice(body) {
            Ok(ErrorBody { error }) => error,
            Err(error) if error.is_data() => {
                let detail = format!("status {status} without an error message{}", named(request_id.as_deref()));
                return ClientError::Unexpected { server: server.to_owned(), detail };
            }
            Err(error) => return ClientError::no_json(server, status, request_id.as_deref(), &error),
        };
        let ErrorFields { message, status: code, details } = error;
        let reason = details.iter().map(|detail| detail.reason.clone()).find(|reason| !reason.is_empty());
        let violations = details.into_iter().flat_map(|detail| detail.field_violations).collect();
        let reason = reason.unwrap_or_default();
        ClientError::Refused(Self { status, request_id, code, message, reason, violations })
    }

    /// One line per violation, or the message without violations. The ID of the request lets an operator find it in the
    /// server's logs.
    fn lines(&self) -> Vec<String> {
        if !self.violations.is_empty() {
            let violations = self.violations.iter();
            let mut lines: Vec<String> = violations.map(|one| format!("{}: {}", one.field, one.description)).collect();
            if let Some(last) = lines.last_mut() {
                last.push_str(&named(self.request_id.as_deref()));
            }
            return lines;
        }
        let token =
            (self.code == "UNAUTHENTICATED").then(|| format!("the access token is taken from {TOKEN_VARIABLE}"));
        let request = self.request_id.as_ref().map(|id| format!("request {id}"));
        let hints: Vec<String> = token.into_iter().chain(request).collect();
        let hints = if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
        vec![format!("{}{hints}", self.message)]
    }
}

/// The ID of a request after a message.
pub(super) fn named(request_id: Option<&str>) -> String {
    request_id.map(|id| format!(" (request {id})")).unwrap_or_default()
}

impl ClientError {
    pub(super) fn no_json(server: &str, status: u16, request_id: Option<&str>, error: &serde_json::Error) -> Self {
        let detail = format!("status {status} with a body that is not JSON ({error}){}", named(request_id));
        Self::Unexpected { server: server.to_owned(), detail }
    }

    /// Whether a retry may succeed: the server did not respond, or was overloaded.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 429 | 503) && !self.is_study_completed(),
            Self::NoPage { status, .. } => matches!(status, 429 | 503),
            Self::Unexpected { .. } => false,
        }
    }

    /// Whether a study has no more trials.
    pub fn is_study_completed(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.reason == "STUDY_COMPLETED")
    }

    /// Whether this is an error response with the given `google.rpc.Code`.
    pub fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == code)
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == 404)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(status: u16, request_id: Option<&str>, body: &Value) -> String {
        Refusal::error("s", status, request_id.map(str::to_owned), body.to_string().as_bytes()).to_string()
    }

    #[test]
    fn each_violation_is_one_line() {
        let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "a: b; c: d", "details": [
            {"@type": "unknown", "fieldViolations": [{"field": "a", "description": "b"}, {"field": "c", "description": "d"}]}]}});
        assert_eq!(text(400, Some("r"), &body), "a: b\nc: d (request r)");
        assert_eq!(text(400, None, &body), "a: b\nc: d");
        let body = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "there is no job x"}});
        assert_eq!(text(404, Some("r-3"), &body), "there is no job x (request r-3)");
        let body = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who are you"}});
        assert_eq!(text(401, None, &body), "who are you (the access token is taken from TUNESMITH_ACCESS_TOKEN)");
        let body = json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "denied"}});
        assert_eq!(text(403, Some("r-2"), &body), "denied (request r-2)");
        let body = json!({"error": {"code": 500, "status": "INTERNAL", "message": "the store failed"}});
        assert_eq!(text(500, Some("r-1"), &body), "the store failed (request r-1)");
        assert_eq!(text(502, None, &json!({})), "unexpected response from s: status 502 without an error message");
        let unexpected = "unexpected response from s: status 502 without an error message (request r-4)";
        assert_eq!(text(502, Some("r-4"), &json!({})), unexpected);
    }
}
