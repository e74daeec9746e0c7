//! Client of Ray's REST interface.

use std::error::Error;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;

use super::RayToken;

/// Request timeout, except for uploads.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Upload timeout.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum length of a quoted response.
const MAX_QUOTE: usize = 500;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("it does not answer: {0}")]
    Unreached(String),
    #[error("it answers {status}: {message}")]
    Refused { status: u16, message: String },
    /// The cluster requires a token; this client's was missing or rejected.
    #[error(
        "it answers {status}: {message}; its token was looked for in: {sources}; set one of them to the token of the cluster"
    )]
    Unauthorized { status: u16, message: String, sources: String },
    #[error("its answer is not that of Ray: {0}")]
    Foreign(String),
    #[error("the package with the agent cannot be made")]
    Package(#[source] std::io::Error),
}

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

/// Location of a job's entry point.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct DriverInfo {
    #[serde(default)]
    pub(super) node_ip_address: Option<String>,
}

impl RayJob {
    /// Address or ID of the entry point's node.
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

    /// The job `name`; `None` if unknown to the cluster.
    pub(super) async fn job(&self, name: &str) -> Result<Option<RayJob>, ClientError> {
        found(self.json(self.request(Method::GET, &["api", "jobs", name])?).await)
    }

    pub(super) async fn submit(&self, request: &Value) -> Result<(), ClientError> {
        // The path ends with a slash.
        let sending = self.request(Method::POST, &["api", "jobs", ""])?.json(request);
        self.send(sending).await.map(drop)
    }

    /// No effect on an unknown job.
    pub(super) async fn stop(&self, name: &str) -> Result<(), ClientError> {
        found(self.send(self.request(Method::POST, &["api", "jobs", name, "stop"])?).await).map(drop)
    }

    /// No effect on an unknown job.
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

/// Maps "not found" to `None`.
fn found<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Last line of a text; in a traceback, the exception.
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
