//! Requests of the REST interface of Ray.

use std::error::Error;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;

use super::RayToken;

/// Limit of the time of a request without a package.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Limit of the time of an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum length of a quoted answer.
const MAX_QUOTE: usize = 500;

/// Why a request had no useful answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// There was no answer.
    #[error("it does not answer: {0}")]
    Unreached(String),
    /// The answer is an error.
    #[error("it answers {status}: {message}")]
    Refused { status: u16, message: String },
    /// The cluster requires a token, and has refused that of this client, or got none.
    #[error(
        "it answers {status}: {message}; its token was looked for in: {sources}; set one of them to the token of the cluster"
    )]
    Unauthorized { status: u16, message: String, sources: String },
    /// The answer is not that of Ray.
    #[error("its answer is not that of Ray: {0}")]
    Foreign(String),
    /// The package with the agent could not be made.
    #[error("the package with the agent cannot be made")]
    Package(#[source] std::io::Error),
}

/// A job, as Ray describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RayJob {
    pub(super) status: String,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) error_type: Option<String>,
    #[serde(default)]
    pub(super) driver_exit_code: Option<i64>,
    #[serde(default)]
    pub(super) driver_info: Option<DriverInfo>,
    #[serde(default)]
    pub(super) driver_node_id: Option<String>,
}

/// Where the entry point of a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct DriverInfo {
    #[serde(default)]
    pub(super) node_ip_address: Option<String>,
}

impl RayJob {
    /// The address of the node of its entry point, or the node's ID.
    pub(super) fn node(&self) -> Option<String> {
        let address = self.driver_info.as_ref().and_then(|driver| driver.node_ip_address.clone());
        address.or_else(|| self.driver_node_id.clone()).filter(|node| !node.is_empty())
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.status == "PENDING"
    }
}

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    address: Url,
    token: RayToken,
}

impl Client {
    pub(super) fn new(http: reqwest::Client, address: Url, token: RayToken) -> Self {
        Self { http, address, token }
    }

    pub(super) async fn version(&self) -> Result<Value, ClientError> {
        self.json(self.request(Method::GET, &["api", "version"])?).await
    }

    /// The job `name`; `None` if the cluster does not know it.
    pub(super) async fn job(&self, name: &str) -> Result<Option<RayJob>, ClientError> {
        found(self.json(self.request(Method::GET, &["api", "jobs", name])?).await)
    }

    pub(super) async fn submit(&self, request: &Value) -> Result<(), ClientError> {
        // The address ends with a slash.
        let sending = self.request(Method::POST, &["api", "jobs", ""])?.json(request);
        self.send(sending).await.map(drop)
    }

    /// Has no effect on a job that is not known.
    pub(super) async fn stop(&self, name: &str) -> Result<(), ClientError> {
        found(self.send(self.request(Method::POST, &["api", "jobs", name, "stop"])?).await).map(drop)
    }

    /// Has no effect on a job that is not known.
    pub(super) async fn delete(&self, name: &str) -> Result<(), ClientError> {
        found(self.send(self.request(Method::DELETE, &["api", "jobs", name])?).await).map(drop)
    }

    pub(super) async fn has_package(&self, name: &str) -> Result<bool, ClientError> {
        found(self.send(self.request(Method::GET, &["api", "packages", "gcs", name])?).await)
            .map(|found| found.is_some())
    }

    pub(super) async fn upload(&self, name: &str, bytes: Vec<u8>) -> Result<(), ClientError> {
        let request = self.request(Method::PUT, &["api", "packages", "gcs", name])?;
        self.send(request.timeout(UPLOAD_TIMEOUT).body(bytes)).await.map(drop)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        let mut url = self.address.clone();
        let mut segments =
            url.path_segments_mut().map_err(|()| ClientError::Foreign("its address has no path".to_owned()))?;
        segments.pop_if_empty().extend(path);
        drop(segments);
        let request = self.http.request(method, url).timeout(TIMEOUT);
        Ok(match self.token.value() {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| ClientError::Unreached(innermost(&error.without_url())))?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let status = response.status();
        let message = last_line(&response.text().await.unwrap_or_default());
        let refuses_token = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let status = status.as_u16();
        Err(match refuses_token {
            true => ClientError::Unauthorized { status, message, sources: self.token.sources() },
            false => ClientError::Refused { status, message },
        })
    }

    async fn json<T: for<'de> Deserialize<'de>>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let text = self.send(request).await?.text().await;
        let text = text.map_err(|error| ClientError::Unreached(innermost(&error)))?;
        serde_json::from_str(&text).map_err(|error| ClientError::Foreign(error.to_string()))
    }
}

/// `None` in place of the answer that there is no such thing.
fn found<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last line of a text, which states the error of a traceback.
fn last_line(text: &str) -> String {
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    line.trim().chars().take(MAX_QUOTE).collect()
}

fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_a_traceback_is_its_last_line() {
        assert_eq!(last_line("Traceback:\n  File x\nValueError: bad\n\n"), "ValueError: bad");
        assert_eq!(last_line(""), "no message");
    }
}
