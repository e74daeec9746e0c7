use askama::Template;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::frame::{Frame, Section};
use super::visit::Visitor;
use tunesmith_domain::{Code, Refusal};
use tunesmith_jobs::JobsError;
use tunesmith_store::StoreError;
use tunesmith_studies::StudiesError;

#[derive(Debug)]
pub(crate) enum PageError {
    /// No page has this path.
    NoPage(String),
    NotFound(String),
    /// The visitor lacks the permission.
    Denied(String),
    /// Invalid part of the URL.
    Invalid(String),
    /// Server failure; the log has the cause.
    Failed(String),
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::NotFound(error.to_string()),
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a page cannot read the store");
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<JobsError> for PageError {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::Store(error) => error.into(),
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a page cannot be shown");
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<StudiesError> for PageError {
    fn from(error: StudiesError) -> Self {
        match error {
            StudiesError::Store(error) => error.into(),
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a page cannot be shown");
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<Refusal> for PageError {
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            Code::NotFound => Self::NotFound(refusal.message),
            Code::PermissionDenied => Self::Denied(refusal.message),
            Code::InvalidArgument => Self::Invalid(refusal.message),
            _ => Self::Failed(refusal.message),
        }
    }
}

/// Start of the message about an unknown path.
const NO_PAGE: &str = "there is no page ";

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    message: String,
    advice: &'static str,
}

impl PageError {
    pub(crate) fn parts(self) -> (StatusCode, String) {
        match self {
            Self::NoPage(path) => (StatusCode::NOT_FOUND, format!("{NO_PAGE}{path}")),
            Self::NotFound(message) => (StatusCode::NOT_FOUND, message),
            Self::Denied(message) => (StatusCode::FORBIDDEN, message),
            Self::Invalid(message) => (StatusCode::BAD_REQUEST, message),
            Self::Failed(message) => (StatusCode::INTERNAL_SERVER_ERROR, message),
        }
    }

    /// Responds to `visitor`.
    pub(crate) fn respond(self, visitor: &Visitor, headers: &HeaderMap) -> Response {
        let (status, message) = self.parts();
        page(status, message, |title| Frame::new(title, Section::Other, visitor, headers))
    }
}

pub(crate) fn refused(refusal: Refusal, headers: &HeaderMap) -> Response {
    page(status(&refusal), refusal.message, |title| Frame::without_visitor(title, Section::Other, headers))
}

pub(crate) fn too_large(headers: &HeaderMap) -> Response {
    let text = "the body exceeds the size limit".to_owned();
    page(StatusCode::PAYLOAD_TOO_LARGE, text, |title| Frame::without_visitor(title, Section::Other, headers))
}

pub(crate) fn status(refusal: &Refusal) -> StatusCode {
    StatusCode::from_u16(refusal.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn page(status: StatusCode, message: String, frame: impl FnOnce(&'static str) -> Frame) -> Response {
    let (title, advice) = match status {
        StatusCode::NOT_FOUND if message.starts_with(NO_PAGE) => {
            ("Not found", "Check the address, or start from the overview.")
        }
        StatusCode::NOT_FOUND => ("Not found", "It may have been deleted. Look for it in the list of jobs."),
        StatusCode::FORBIDDEN => ("Not allowed", "Ask an administrator of this server for a role in the project."),
        StatusCode::UNAUTHORIZED => ("Sign in", "This server requires a token."),
        StatusCode::TOO_MANY_REQUESTS => ("Too many requests", "Wait a moment, and load the page again."),
        StatusCode::BAD_REQUEST => ("Invalid address", "Correct the address, or start from the list of jobs."),
        StatusCode::SERVICE_UNAVAILABLE => ("Not available", "Load the page again in a moment."),
        StatusCode::GATEWAY_TIMEOUT => ("Took too long", "Load the page again when the server has less to do."),
        _ => ("The server failed", "The log of the server has the cause. Load the page again later."),
    };
    Frame::respond(false, status, &ErrorPage { frame: frame(title), message: sentence(&message), advice })
}

/// Message of an error as a sentence. A first word that is a name or a part of an address stays as it is.
fn sentence(message: &str) -> String {
    let word = message.split(' ').next().unwrap_or_default();
    let is_word = word.len() < message.len() && word.chars().all(|letter| letter.is_ascii_lowercase());
    let mut text = message.to_owned();
    if let Some(first) = text.get_mut(..1).filter(|_| is_word) {
        first.make_ascii_uppercase();
    }
    if !text.ends_with(['.', '!', '?', ':']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn messages_become_sentences() {
        assert_eq!(sentence("job p/none does not exist"), "Job p/none does not exist.");
        assert_eq!(sentence("after=x: use a number"), "after=x: use a number.");
        assert_eq!(sentence("\"a\" is not a name."), "\"a\" is not a name.");
        assert_eq!(sentence("élan vital"), "élan vital.");
    }
}
