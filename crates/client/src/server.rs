//! HTTP transport.

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{StatusCode, Url};

use super::error::Refusal;
use super::transport::{Payload, Request, Response, Transport};
use super::upload_body::UploadBody;
use super::{ClientError, ClientFailure, advice, base_address, http_client, is_loopback};

/// A server and the client's token.
#[derive(Debug, Clone)]
pub struct Server {
    base: Url,
    token: Option<HeaderValue>,
    http: reqwest::Client,
    /// Header of every request.
    header: Option<(&'static str, HeaderValue)>,
}

/// A failed download.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error(transparent)]
    Request(#[from] ClientError),
    /// The received bytes cannot be stored.
    #[error("the download cannot be saved")]
    Save(#[source] std::io::Error),
}

impl Server {
    /// Creates a transport to the server at `address`.
    ///
    /// # Errors
    /// If the address or token is invalid, or no certificates are trusted.
    pub fn new(address: &str, token: Option<&str>) -> Result<Self, ClientFailure> {
        let authorization = |token| HeaderValue::from_str(&format!("Bearer {token}"));
        let mut token = token.map(authorization).transpose().map_err(|_| ClientFailure::Token)?;
        token.iter_mut().for_each(|token| token.set_sensitive(true));
        Ok(Self { base: base_address(address)?, token, http: http_client(address)?, header: None })
    }

    /// Sends the header `name` with every request.
    #[must_use]
    pub fn with_header(self, name: &'static str, value: &'static str) -> Self {
        Self { header: Some((name, HeaderValue::from_static(value))), ..self }
    }

    pub fn url(&self) -> &Url {
        &self.base
    }

    /// HTTP client without the token.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub fn is_local(&self) -> bool {
        is_loopback(&self.base)
    }

    /// Downloads the path `target`, passing its bytes to `keep`.
    ///
    /// # Errors
    /// [`DownloadError`]; some bytes may already have been stored.
    pub async fn download(
        &self,
        target: &str,
        mut keep: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), DownloadError> {
        let request = self.builder(reqwest::Method::GET, target);
        let mut response = request.send().await.map_err(|error| self.unreachable(error))?;
        if !response.status().is_success() {
            let answer = answer(response).await.map_err(|error| self.unreachable(error))?;
            return Err(Refusal::error(&self.address(), answer.status, answer.request_id, &answer.body).into());
        }
        // A body shorter than its `Content-Length` is an error.
        while let Some(bytes) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            keep(&bytes).map_err(DownloadError::Save)?;
        }
        Ok(())
    }

    fn builder(&self, method: reqwest::Method, target: &str) -> reqwest::RequestBuilder {
        let builder = self.http.request(method, format!("{}{target}", self.address()));
        let builder = match &self.header {
            Some((name, value)) => builder.header(*name, value),
            None => builder,
        };
        match &self.token {
            Some(token) => builder.header(AUTHORIZATION, token),
            None => builder,
        }
    }

    async fn send_once(&self, request: &Request, key: Option<&str>) -> reqwest::Result<Response> {
        let mut builder = self.builder(request.method.clone(), &request.target);
        if let Some(key) = key {
            builder = builder.header("idempotency-key", key);
        }
        builder = match &request.payload {
            Payload::None => builder,
            Payload::Json(message) => builder.header(CONTENT_TYPE, "application/json").body(message.clone()),
            Payload::File(bytes, taken) => {
                let body = UploadBody::new(bytes.clone(), taken.clone());
                builder.header(CONTENT_TYPE, "application/octet-stream").body(reqwest::Body::wrap(body))
            }
        };
        answer(builder.send().await?).await
    }

    fn unreachable(&self, error: reqwest::Error) -> ClientError {
        let detail = advice(&error).unwrap_or_else(|| innermost(&error.without_url()));
        ClientError::Unreachable { server: self.address(), detail }
    }
}

#[async_trait]
impl Transport for Server {
    /// Address without a trailing slash.
    fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    async fn send(&self, request: Request) -> Result<Response, ClientError> {
        // The idempotency key prevents a second effect.
        let key =
            (request.is_repeated && !request.method.is_safe()).then(|| format!("{:032x}", rand::random::<u128>()));
        let outcome = match self.send_once(&request, key.as_deref()).await {
            Err(error) if request.is_repeated && !error.is_connect() && !error.is_timeout() => {
                self.send_once(&request, key.as_deref()).await
            }
            outcome => outcome,
        };
        outcome.map_err(|error| self.unreachable(error))
    }
}

async fn answer(response: reqwest::Response) -> reqwest::Result<Response> {
    let (status, headers): (StatusCode, _) = (response.status(), response.headers());
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let body: Bytes = response.bytes().await?;
    Ok(Response { status: status.as_u16(), request_id, body })
}

/// Innermost error, which names the fault.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
