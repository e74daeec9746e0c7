//! The errors of the client commands, with their messages and exit codes.

use serde_json::Value;

use crate::cli::BAD_INPUT;
use crate::data_dir::DataDirError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The service returned an error.
    #[error("{}", .0.lines().join("\n"))]
    Refused(Refusal),
    /// The server cannot be reached.
    #[error("the server {server} cannot be reached: {detail}")]
    Unreachable {
        /// Its address.
        server: String,
        /// The error of the operating system.
        detail: String,
    },
    /// The response does not have the form of a response of the service.
    #[error("unexpected response from {server}: {detail}")]
    Foreign {
        /// Its address.
        server: String,
        /// What is wrong with the response.
        detail: String,
    },
    /// The service does not show a page.
    #[error("{reason} ({server} answered with status {status})")]
    NoPage {
        /// The address of the server, or the path of the data folder.
        server: String,
        /// The status of the response.
        status: u16,
        /// What the service states.
        reason: String,
    },
    /// No job has the given name.
    #[error(
        "job {given} does not exist{}",
        .similar.as_ref().map(|id| format!("; did you mean {id:?}?")).unwrap_or_default()
    )]
    UnknownJob {
        /// The given name.
        given: String,
        /// The most similar ID.
        similar: Option<String>,
    },
    /// No job has the given name, but a study has.
    #[error(
        "job {name} does not exist; for the study of this name: --study {name}{}",
        .location.as_ref().map(|location| format!(" --region {location}")).unwrap_or_default()
    )]
    StudyNotJob {
        /// The given name.
        name: String,
        /// The location of the study, unless it is that of the arguments.
        location: Option<String>,
    },
    /// Several jobs have IDs that start with the given name.
    #[error("several jobs start with {given:?}: {matching}; give more of the name")]
    AmbiguousJob {
        /// The given name.
        given: String,
        /// The IDs.
        matching: String,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] DataDirError),
}

/// An error response of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// HTTP status.
    pub(super) status: u16,
    /// ID of the request in the log of the server.
    request_id: Option<String>,
    /// Name of the `google.rpc.Code`.
    pub(super) code: String,
    message: String,
    /// The reason, for programs; empty if there is none.
    reason: String,
    /// The violated rules: field and description.
    violations: Vec<(String, String)>,
}

impl Refusal {
    /// Returns the error in the `body` of a response; `None` if there is none.
    pub(super) fn of(status: u16, request_id: Option<String>, body: &Value) -> Option<Self> {
        let error = body.get("error")?;
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let violations = details.iter().filter_map(|detail| detail["fieldViolations"].as_array()).flatten();
        Some(Self {
            status,
            request_id,
            code: text(error, "status"),
            message: text(error, "message"),
            reason: details
                .iter()
                .map(|detail| text(detail, "reason"))
                .find(|reason| !reason.is_empty())
                .unwrap_or_default(),
            violations: violations.map(|one| (text(one, "field"), text(one, "description"))).collect(),
        })
    }

    /// Returns one line for each violation, or the message if there are none.
    fn lines(&self) -> Vec<String> {
        if !self.violations.is_empty() {
            return self.violations.iter().map(|(field, description)| format!("{field}: {description}")).collect();
        }
        let token = (self.code == "UNAUTHENTICATED")
            .then(|| "the access token is taken from TUNESMITH_ACCESS_TOKEN".to_owned());
        // With this ID, an operator finds the request in the logs of the server.
        let request = self.request_id.as_ref().filter(|_| matches!(self.status, 401 | 403 | 500..));
        let request = request.map(|id| format!("request {id}"));
        let hints: Vec<String> = token.into_iter().chain(request).collect();
        let hints = if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
        vec![format!("{}{hints}", self.message)]
    }
}

impl ClientError {
    /// Returns 2 for invalid input, otherwise 1.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Folder(_) | Self::UnknownJob { .. } | Self::StudyNotJob { .. } | Self::AmbiguousJob { .. } => {
                BAD_INPUT
            }
            Self::Refused(refusal) => match refusal.code.as_str() {
                "INVALID_ARGUMENT" | "NOT_FOUND" | "ALREADY_EXISTS" | "UNIMPLEMENTED" => BAD_INPUT,
                _ => 1,
            },
            Self::NoPage { status: 400 | 404, .. } => BAD_INPUT,
            Self::Unreachable { .. } | Self::Foreign { .. } | Self::NoPage { .. } => 1,
        }
    }

    /// Whether a retry may succeed: the server did not respond, or was overloaded.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 429 | 503) && !self.is_study_completed(),
            Self::NoPage { status, .. } => matches!(status, 429 | 503),
            Self::Foreign { .. }
            | Self::Folder { .. }
            | Self::UnknownJob { .. }
            | Self::StudyNotJob { .. }
            | Self::AmbiguousJob { .. } => false,
        }
    }

    /// Whether a study has no more trials.
    pub(super) fn is_study_completed(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.reason == "STUDY_COMPLETED")
    }

    /// Whether the request was based on an outdated version of the resource.
    pub(super) fn is_aborted(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == "ABORTED")
    }

    /// Whether the resource does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == 404)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_violation_is_one_line() {
        let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "a: b; c: d", "details": [
            {"fieldViolations": [{"field": "a", "description": "b"}, {"field": "c", "description": "d"}]}]}});
        let error = ClientError::Refused(Refusal::of(400, Some("r".to_owned()), &body).unwrap());
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("a: b\nc: d", 2));
        let body = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who are you"}});
        let error = ClientError::Refused(Refusal::of(401, None, &body).unwrap());
        assert!(error.to_string().contains("TUNESMITH_ACCESS_TOKEN"));
        assert_eq!(error.exit_code(), 1);
        let body = json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "denied"}});
        let error = ClientError::Refused(Refusal::of(403, Some("r-2".to_owned()), &body).unwrap());
        assert_eq!(error.to_string(), "denied (request r-2)");
        let body = json!({"error": {"code": 500, "status": "INTERNAL", "message": "the store failed"}});
        let error = ClientError::Refused(Refusal::of(500, Some("r-1".to_owned()), &body).unwrap());
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("the store failed (request r-1)", 1));
        assert_eq!(Refusal::of(200, None, &json!({})), None);
    }
}
