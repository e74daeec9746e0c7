//! Deliveries over HTTP.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use reqwest::{StatusCode, header};
use ring::hmac;
use serde_json::json;
use tunesmith_client::http_client_builder;
use tunesmith_client::public_address::PublicResolver;

use crate::settings::Format;
use crate::{Event, Webhook};

/// Time limit of a delivery. Standard Webhooks recommends 15 to 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum pause that a receiver can ask for.
const MAX_RETRY_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// A delivery that the receiver has not accepted. Messages contain no address: it may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    #[error("{reason}")]
    Unreachable { reason: String },
    /// The receiver, or something in front of it, accepts no events now.
    #[error("the receiver responded with {status}{}", advice(*.status))]
    Failed { status: StatusCode, retry_after: Option<Duration> },
    /// The receiver refuses this event.
    #[error("the receiver refused the event with {status}")]
    Refused { status: StatusCode },
}

fn advice(status: StatusCode) -> &'static str {
    if status.is_redirection() { "; redirects are not followed: configure the final address" } else { "" }
}

/// Client of one webhook.
pub(crate) struct Sender {
    webhook: Arc<Webhook>,
    client: reqwest::Client,
}

impl Sender {
    /// # Errors
    /// If no certificates are trusted.
    pub(crate) fn new(webhook: Arc<Webhook>) -> Result<Self, tunesmith_client::ClientFailure> {
        // It follows no redirect: the next address would get the event without having been configured.
        let mut client = http_client_builder(&webhook.url, &[])?.connect_timeout(CONNECT_TIMEOUT).timeout(TIMEOUT);
        if !webhook.allow_private_addresses {
            let variables: BTreeMap<_, _> = std::env::vars_os().collect();
            client = client.dns_resolver(Arc::new(PublicResolver::new(&variables)));
        }
        Ok(Self { client: client.build()?, webhook })
    }

    /// Sends `event` at `now`.
    pub(crate) async fn send(&self, event: &Event, now: Timestamp) -> Result<StatusCode, DeliveryError> {
        let body = match self.webhook.format {
            Format::Standard => event.body(),
            Format::Slack => json!({ "text": escaped(&event.summary()) }).to_string(),
        };
        let mut request = self
            .client
            .post(self.webhook.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", now.as_second());
        if let Some(key) = &self.webhook.key {
            request = request.header("webhook-signature", signature(key, &event.id, now.as_second(), &body));
        }
        let response = request.body(body).send().await.map_err(|error| unreachable(&error.without_url()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(status);
        }
        let is_about_event = matches!(
            status,
            StatusCode::BAD_REQUEST
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNSUPPORTED_MEDIA_TYPE
                | StatusCode::UNPROCESSABLE_ENTITY
        );
        if is_about_event {
            return Err(DeliveryError::Refused { status });
        }
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| pause(text, Timestamp::now()));
        Err(DeliveryError::Failed { status, retry_after })
    }
}

/// Sends a test event to `webhook` once.
///
/// # Errors
/// [`DeliveryError`].
pub async fn send_test(webhook: &Arc<Webhook>) -> Result<StatusCode, DeliveryError> {
    let sender =
        Sender::new(Arc::clone(webhook)).map_err(|error| DeliveryError::Unreachable { reason: error.to_string() })?;
    let now = Timestamp::now();
    sender.send(&Event::test(now), now).await
}

/// Signature of Standard Webhooks, version 1.
fn signature(key: &[u8], id: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

/// Text with the characters escaped that Slack interprets.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Pause in a `Retry-After` header: seconds or a date.
fn pause(text: &str, now: Timestamp) -> Option<Duration> {
    let pause = match text.trim().parse::<i64>() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) => jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp().duration_since(now),
    };
    Duration::try_from(pause.clamp(SignedDuration::ZERO, MAX_RETRY_AFTER)).ok()
}

fn unreachable(error: &reqwest::Error) -> DeliveryError {
    let mut reason = if error.is_timeout() {
        format!("the receiver did not respond within {} s", TIMEOUT.as_secs())
    } else {
        "the receiver cannot be reached".to_owned()
    };
    let mut last = None;
    let mut cause = error.source();
    while let Some(next) = cause {
        last = Some(next.to_string());
        cause = next.source();
    }
    if let Some(last) = last.filter(|_| !error.is_timeout()) {
        reason.push_str(": ");
        reason.push_str(&last);
    }
    if let Some(advice) = tunesmith_client::advice(error) {
        reason.push_str("; ");
        reason.push_str(&advice);
    }
    DeliveryError::Unreachable { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector of the reference implementations of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn pauses_are_seconds_or_dates_and_bounded() {
        let now: Timestamp = "2015-10-21T07:27:00Z".parse().unwrap();
        assert_eq!(pause("7", now), Some(Duration::from_secs(7)));
        assert_eq!(pause("Wed, 21 Oct 2015 07:28:00 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(pause("-5", now), Some(Duration::ZERO));
        assert_eq!(pause("99999999", now), Some(Duration::from_secs(3600)));
        assert_eq!(pause("soon", now), None);
    }
}
