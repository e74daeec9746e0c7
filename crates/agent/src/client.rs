//! Sends reports to the server.

use std::io;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{StatusCode, Url};

use super::{AgentFailure, AgentSettings};
use tunesmith_api::agent::{SyncAnswer, SyncRequest, run_name};
use tunesmith_executor::ExecutorJobSpec;

/// The address of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
    /// The address of its packages, which ends with a slash.
    packages: Url,
    authorization: HeaderValue,
}

/// What became of a report.
#[derive(Debug)]
pub(super) enum Sent {
    /// It was received.
    Answered(SyncAnswer),
    /// The server does not want the attempt any more.
    Superseded(String),
    /// There was no answer, or one that asks to try again.
    Unreached(String),
}

/// What became of the request for a package.
#[derive(Debug)]
pub(super) enum Download {
    /// All of it was received.
    Complete,
    /// The server does not give it.
    Refused(String),
    /// What was received cannot be kept.
    NotKept(io::Error),
    /// There was no answer, not all of it, or one that asks to try again.
    Unreached(String),
}

impl Client {
    pub(super) fn new(
        http: reqwest::Client,
        address: &str,
        settings: &AgentSettings,
        spec: &ExecutorJobSpec,
    ) -> Result<Self, AgentFailure> {
        let token = settings.token.as_ref().unwrap_or(&spec.server.token);
        let invalid = || AgentFailure::Server {
            address: address.to_owned(),
            reason: "expected http://HOST:PORT or https://HOST:PORT".to_owned(),
        };
        let (project, job) = spec.id.job.parts();
        let run = format!("/v1/projects/{project}/jobs/{job}/runs/{}", run_name(&spec.id));
        let parse = |end: &str| Url::parse(&format!("{}{run}{end}", address.trim_end_matches('/')));
        let (url, packages) = (parse(":sync").map_err(|_| invalid())?, parse("/packages/").map_err(|_| invalid())?);
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid());
        }
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| AgentFailure::Spec {
            path: settings.spec.clone(),
            reason: "has a token with characters that are not allowed in a header".to_owned(),
        })?;
        authorization.set_sensitive(true);
        Ok(Self { http, url, packages, authorization })
    }

    /// The address of the attempt at the server.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Gets a package, and gives its bytes to `keep`.
    pub(super) async fn package(
        &self,
        sha256: &str,
        file_name: &str,
        mut keep: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Download {
        let mut url = self.packages.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend([sha256, file_name]);
        }
        let unreached = |error: reqwest::Error| Download::Unreached(innermost(&error.without_url()));
        let mut response = match self.http.get(url).header(AUTHORIZATION, &self.authorization).send().await {
            Ok(response) => response,
            Err(error) => return unreached(error),
        };
        let status = response.status();
        if !status.is_success() {
            let text = response.text().await.unwrap_or_default();
            let (message, is_ours) = error_message(status, &text);
            let is_final = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST);
            return if is_final && is_ours { Download::Refused(message) } else { Download::Unreached(message) };
        }
        loop {
            // The length is that of the answer's header, or the connection is broken.
            match response.chunk().await {
                Ok(Some(bytes)) => {
                    if let Err(error) = keep(&bytes) {
                        return Download::NotKept(error);
                    }
                }
                Ok(None) => return Download::Complete,
                Err(error) => return unreached(error),
            }
        }
    }

    pub(super) async fn send(&self, request: &SyncRequest) -> Sent {
        let body = match serde_json::to_vec(request) {
            Ok(body) => body,
            Err(error) => return Sent::Unreached(format!("the report cannot be written: {error}")),
        };
        let sending = self
            .http
            .post(self.url.clone())
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send();
        let response = match sending.await {
            Ok(response) => response,
            Err(error) => return Sent::Unreached(innermost(&error.without_url())),
        };
        let status = response.status();
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => return Sent::Unreached(innermost(&error.without_url())),
        };
        if status.is_success() {
            return match serde_json::from_str(&text) {
                Ok(answer) => Sent::Answered(answer),
                Err(error) => Sent::Unreached(format!("the answer is not that of a Tunesmith server: {error}")),
            };
        }
        let (message, is_ours) = error_message(status, &text);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let refuses = status == StatusCode::UNAUTHORIZED || answer["error"]["status"] == "FAILED_PRECONDITION";
        if refuses && is_ours { Sent::Superseded(message) } else { Sent::Unreached(message) }
    }
}

/// The message of the error `text`, and whether it has the form of this server: a proxy that stands before it answers 401 or 404,
/// too.
fn error_message(status: StatusCode, text: &str) -> (String, bool) {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let message = answer["error"]["message"].as_str();
    (format!("{status}: {}", message.unwrap_or("no message")), message.is_some())
}

/// Returns the innermost cause, which names the fault.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
