//! Sends reports to the server.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{StatusCode, Url};

use super::{AgentFailure, AgentSettings};
use tunesmith_api::agent::{SyncAnswer, SyncRequest, run_name};
use tunesmith_executor::ExecutorJobSpec;

/// The address of one attempt.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
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
        let path = format!("/v1/projects/{project}/jobs/{job}/runs/{}:sync", run_name(&spec.id));
        let url = Url::parse(&format!("{}{path}", address.trim_end_matches('/'))).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid());
        }
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| AgentFailure::Spec {
            path: settings.spec.clone(),
            reason: "has a token with characters that are not allowed in a header".to_owned(),
        })?;
        authorization.set_sensitive(true);
        Ok(Self { http, url, authorization })
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
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let error = &answer["error"];
        let message = format!("{status}: {}", error["message"].as_str().unwrap_or("no message"));
        // A proxy that stands before the server answers 401 or 404 too, but not in this form.
        let refuses = status == StatusCode::UNAUTHORIZED || error["status"] == "FAILED_PRECONDITION";
        if refuses && error["message"].is_string() { Sent::Superseded(message) } else { Sent::Unreached(message) }
    }
}

/// Returns the innermost cause, which names the fault.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
