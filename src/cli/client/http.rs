//! Sends requests to a server over HTTP.

use std::time::Duration;

use anyhow::bail;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use super::error::ClientError;
use super::request::{Answer, Payload, Request};
use super::tls;
use super::upload_body::UploadBody;

/// Environment variable with the access token.
const TOKEN_VARIABLE: &str = "TUNESMITH_ACCESS_TOKEN";

/// Maximum time to connect to a server.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time between two reads of a response. The report of a job with many trials takes long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

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
        let client = client_of(&base)?;
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
            detail: tls::advice(&error).unwrap_or_else(|| causes(&error.without_url())),
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

/// Returns a client for requests to the server at `address`.
///
/// # Errors
/// If the address is invalid, or no certificates can be trusted.
pub(crate) fn http_client(address: &str) -> anyhow::Result<reqwest::Client> {
    client_of(&base_address(address)?)
}

fn base_address(address: &str) -> anyhow::Result<Url> {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => bail!("invalid server address {address:?}: expected http://HOST:PORT or https://HOST:PORT"),
    }
}

fn client_of(base: &Url) -> anyhow::Result<reqwest::Client> {
    // An error means that a provider is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_PATIENCE)
        .read_timeout(ANSWER_PATIENCE);
    if base.scheme() == "https" {
        client = client.tls_backend_preconfigured(tls::client_config()?);
    }
    if is_loopback(base) {
        client = client.no_proxy();
    }
    Ok(client.build()?)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the innermost cause, which names the fault.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
