//! Sends requests to a server over HTTP.

use anyhow::bail;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use super::error::ClientError;
use super::request::{Answer, Payload, Request};
use super::upload_body::UploadBody;
use tunesmith_client::{advice, base_address, http_client, is_loopback};

/// Environment variable with the access token.
const TOKEN_VARIABLE: &str = "TUNESMITH_ACCESS_TOKEN";

/// A connection to a server.
pub(super) struct Server {
    base: Url,
    token: Option<HeaderValue>,
    client: reqwest::Client,
}

impl Server {
    /// Creates a client of the server at `address`, with the access token of the environment.
    pub(super) fn new(address: &str) -> anyhow::Result<Self> {
        let base = base_address(address)?;
        let client = http_client(address)?;
        let token = match std::env::var(TOKEN_VARIABLE) {
            Ok(token) if !token.is_empty() => match HeaderValue::from_str(&format!("Bearer {token}")) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    Some(value)
                }
                Err(_) => bail!("{TOKEN_VARIABLE} contains characters that are not allowed in a token"),
            },
            _ => None,
        };
        Ok(Self { base, token, client })
    }

    /// Returns the address without a trailing slash.
    pub(super) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether requests have a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the server runs on this machine.
    pub(super) fn is_local(&self) -> bool {
        is_loopback(&self.base)
    }

    /// Sends one request, and repeats it if the connection broke before the response. The idempotency key prevents a
    /// second effect.
    pub(super) async fn send(&self, request: Request) -> Result<Answer, ClientError> {
        let key = format!("{:032x}", rand::random::<u128>());
        let outcome = match self.send_once(&request, &key).await {
            Err(error) if !error.is_connect() && !error.is_timeout() => self.send_once(&request, &key).await,
            outcome => outcome,
        };
        outcome.map_err(|error| ClientError::Unreachable {
            server: self.address().to_owned(),
            detail: advice(&error).unwrap_or_else(|| causes(&error.without_url())),
        })
    }

    async fn send_once(&self, request: &Request, key: &str) -> reqwest::Result<Answer> {
        let url = format!("{}{}", self.address(), request.target);
        let mut builder = self.client.request(request.method.clone(), url);
        if let Some(token) = &self.token {
            builder = builder.header(AUTHORIZATION, token);
        }
        if !request.method.is_safe() {
            builder = builder.header("idempotency-key", key);
        }
        builder = match &request.payload {
            Payload::None => builder,
            Payload::Json(value) => builder.header(CONTENT_TYPE, "application/json").body(value.to_string()),
            Payload::File(bytes, taken) => {
                let body = UploadBody::new(bytes.clone(), taken.clone());
                builder.header(CONTENT_TYPE, "application/octet-stream").body(reqwest::Body::wrap(body))
            }
        };
        let response = builder.send().await?;
        let request_id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        Ok(Answer { status: response.status().as_u16(), request_id, body: response.bytes().await? })
    }
}

/// Returns the innermost cause, which names the fault.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
