//! Settings of a webhook.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use tunesmith_filter::FilterError;

use crate::{Event, EventFilter, EventKind};

/// Prefix of secrets.
const SECRET_PREFIX: &str = "whsec_";
/// Sizes of secrets in bytes, as Standard Webhooks specifies.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const MAX_NAME: usize = 64;

/// Form of the bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Events in JSON, as in Standard Webhooks.
    #[default]
    Standard,
    /// `{"text": ...}`: incoming webhooks of Slack, Mattermost and Rocket.Chat.
    Slack,
}

impl Format {
    pub const NAMES: [&str; 2] = ["standard", "slack"];
}

/// Settings of a webhook as written.
#[derive(Debug, Clone, Default)]
pub struct WebhookFields {
    pub name: String,
    pub url: String,
    pub secret: Option<String>,
    /// Kinds of events, or `PREFIX.*`; all if empty.
    pub events: Vec<String>,
    pub filter: Option<String>,
    pub format: Option<String>,
    /// Whether the receiver may have a private address, and need not use HTTPS.
    pub allow_private_addresses: bool,
}

/// A receiver and the events that it gets.
#[derive(Clone)]
pub struct Webhook {
    name: String,
    /// Secret: the address of an incoming webhook is its credential.
    pub(crate) url: Url,
    pub(crate) key: Option<Vec<u8>>,
    kinds: Vec<EventKind>,
    filter: Option<EventFilter>,
    pub(crate) format: Format,
    pub(crate) allow_private_addresses: bool,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Invalid setting. The message begins with the name of the field, and contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    #[error("name: found {found:?}; expected 1 to {MAX_NAME} letters, digits, hyphens and underscores")]
    Name { found: String },
    #[error("url: expected https://HOST[:PORT][/PATH], or http:// with allowPrivateAddresses")]
    Url,
    #[error("url: its host is not public; allowPrivateAddresses: true permits it")]
    NotPublic,
    #[error(
        "secret: missing; set secretFile or secretVariable, such as to the output of: \
         echo whsec_$(openssl rand -base64 32)"
    )]
    NoSecret,
    #[error(
        "secret: expected {SECRET_PREFIX} and the Base64 form of {} to {} bytes, such as the output of: \
         echo whsec_$(openssl rand -base64 32)",
        SECRET_BYTES.start(), SECRET_BYTES.end()
    )]
    Secret,
    #[error("events[{index}]: found {found:?}; allowed: {}, job.*, trial.*, study.*", kinds())]
    Event { index: usize, found: String },
    #[error("filter: {0}")]
    Filter(FilterError),
    #[error("format: found {found:?}; allowed: {}", Format::NAMES.join(", "))]
    Format { found: String },
}

fn kinds() -> String {
    EventKind::ALL.map(EventKind::as_str).join(", ")
}

impl Webhook {
    /// # Errors
    /// [`WebhookError`] for the first invalid field.
    pub fn new(fields: WebhookFields) -> Result<Self, WebhookError> {
        let WebhookFields { name, url, secret, events, filter, format, allow_private_addresses } = fields;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_allowed) {
            return Err(WebhookError::Name { found: name });
        }
        let url = tunesmith_client::base_address(&url).map_err(|_| WebhookError::Url)?;
        if !allow_private_addresses {
            if url.scheme() != "https" {
                return Err(WebhookError::Url);
            }
            tunesmith_client::public_address::check(&url).map_err(|_| WebhookError::NotPublic)?;
        }
        let format = match format.as_deref() {
            None | Some("standard") => Format::Standard,
            Some("slack") => Format::Slack,
            Some(other) => return Err(WebhookError::Format { found: other.to_owned() }),
        };
        let key = match secret {
            Some(text) => Some(key(&text)?),
            None if format == Format::Standard => return Err(WebhookError::NoSecret),
            None => None,
        };
        let mut selected = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let found = EventKind::ALL.into_iter().filter(|kind| match event.strip_suffix('*') {
                Some(prefix) => prefix.ends_with('.') && kind.as_str().starts_with(prefix),
                None => kind.as_str() == event,
            });
            let before = selected.len();
            selected.extend(found);
            if selected.len() == before {
                return Err(WebhookError::Event { index, found: event.clone() });
            }
        }
        if events.is_empty() {
            selected.extend(EventKind::ALL);
        }
        let filter = filter.map(|text| text.parse()).transpose().map_err(WebhookError::Filter)?;
        Ok(Self { name, url, key, kinds: selected, filter, format, allow_private_addresses })
    }

    /// Unique name, for logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Host of the receiver, which is not secret.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether the receiver gets `event`.
    pub fn selects(&self, event: &Event) -> bool {
        self.kinds.contains(&event.kind) && self.filter.as_ref().is_none_or(|filter| filter.accepts(event))
    }
}

fn key(text: &str) -> Result<Vec<u8>, WebhookError> {
    let encoded = text.trim().strip_prefix(SECRET_PREFIX).ok_or(WebhookError::Secret)?;
    let key = STANDARD.decode(encoded).map_err(|_| WebhookError::Secret)?;
    if SECRET_BYTES.contains(&key.len()) { Ok(key) } else { Err(WebhookError::Secret) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> WebhookFields {
        WebhookFields {
            name: "team".into(),
            url: "https://hooks.example.com/x".into(),
            secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()),
            ..WebhookFields::default()
        }
    }

    fn refused(change: impl FnOnce(&mut WebhookFields)) -> String {
        let mut changed = fields();
        change(&mut changed);
        Webhook::new(changed).unwrap_err().to_string()
    }

    #[test]
    fn settings_are_checked_and_never_shown() {
        let webhook = Webhook::new(fields()).unwrap();
        assert_eq!(format!("{webhook:?}"), "Webhook { name: \"team\", .. }");
        assert_eq!(webhook.host(), "hooks.example.com");
        assert!(refused(|fields| fields.name = "a b".into()).starts_with("name: found \"a b\""));
        assert!(refused(|fields| fields.url = "http://example.com/secret".into()).starts_with("url: expected https"));
        assert!(refused(|fields| fields.url = "https://10.0.0.1/secret".into()).starts_with("url: its host is not"));
        assert!(refused(|fields| fields.secret = None).starts_with("secret: missing"));
        for secret in ["plain-text-secret", "whsec_short", "whsec_AAAA"] {
            let message = refused(|fields| fields.secret = Some(secret.into()));
            assert!(message.starts_with("secret: expected whsec_") && !message.contains("AAAA"), "{message}");
        }
        let message = refused(|fields| fields.events = vec!["job.*".into(), "job.finished".into()]);
        assert!(message.starts_with("events[1]: found \"job.finished\"; allowed: job.created, "), "{message}");
        let message = refused(|fields| fields.filter = Some("owner = me".into()));
        assert!(message.starts_with("filter: column 1: found the field owner; allowed: type"), "{message}");
        let message = refused(|fields| fields.format = Some("teams".into()));
        assert_eq!(message, "format: found \"teams\"; allowed: standard, slack");
    }

    #[test]
    fn slack_needs_no_secret_and_private_addresses_need_permission() {
        let private = WebhookFields {
            url: "http://127.0.0.1:9/x".into(),
            secret: None,
            format: Some("slack".into()),
            allow_private_addresses: true,
            ..fields()
        };
        assert_eq!(Webhook::new(private).unwrap().format, Format::Slack);
    }
}
