//! A server that is reached over HTTP.

use std::time::Duration;

use anyhow::bail;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use super::error::ClientError;
use super::request::{Answer, Payload, Request};

/// Holds the token that is shown to the server.
const TOKEN_VARIABLE: &str = "TUNESMITH_ACCESS_TOKEN";

/// How long a server may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long it may be silent. A job with many trials takes a while to be told.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// A server.
pub(super) struct Server {
    base: Url,
    token: Option<HeaderValue>,
    client: reqwest::Client,
}

impl Server {
    /// The server at `address`, with the token of the environment.
    pub(super) fn new(address: &str) -> anyhow::Result<Self> {
        let base = match Url::parse(address) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            _ => bail!("{address:?} is no address of a server: http://HOST:PORT or https://HOST:PORT is"),
        };
        // An error says that a provider is installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_PATIENCE)
            .read_timeout(ANSWER_PATIENCE);
        if is_loopback(&base) {
            client = client.no_proxy();
        }
        let token = match std::env::var(TOKEN_VARIABLE) {
            Ok(token) if !token.is_empty() => match HeaderValue::from_str(&format!("Bearer {token}")) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    Some(value)
                }
                Err(_) => bail!("{TOKEN_VARIABLE} holds characters that no token has"),
            },
            _ => None,
        };
        Ok(Self { base, token, client: client.build()? })
    }

    /// Its address, as people write it.
    pub(super) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether it runs on this machine.
    pub(super) fn is_local(&self) -> bool {
        is_loopback(&self.base)
    }

    /// Sends one request; once more if the connection broke before its answer came. Its key makes both one effect.
    pub(super) async fn send(&self, request: Request) -> Result<Answer, ClientError> {
        let key = format!("{:032x}", rand::random::<u128>());
        let outcome = match self.try_to_send(&request, &key).await {
            Err(error) if !error.is_connect() && !error.is_timeout() => self.try_to_send(&request, &key).await,
            outcome => outcome,
        };
        outcome.map_err(|error| ClientError::Unreachable {
            server: self.address().to_owned(),
            detail: causes(&error.without_url()),
        })
    }

    async fn try_to_send(&self, request: &Request, key: &str) -> reqwest::Result<Answer> {
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
            Payload::Bytes(bytes) => builder.header(CONTENT_TYPE, "application/octet-stream").body(bytes.clone()),
        };
        let response = builder.send().await?;
        let request_id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        Ok(Answer { status: response.status().as_u16(), request_id, body: response.bytes().await? })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The innermost cause says what happened, those around it only where.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
