//! Events that a receiver has not accepted yet.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tunesmith_store::StoreError;
use tunesmith_telemetry::telemetry;

use crate::{DocumentStore, Event};

/// Age from which events are no longer delivered. A guess: a receiver that is down over a night gets them.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of undelivered events of a webhook; the oldest are dropped.
const MAX_EVENTS: usize = 10_000;

/// Outbox of one webhook. Names of documents order events by time.
pub(crate) struct Outbox {
    webhook: String,
    documents: DocumentStore,
    kind: String,
    entries: BTreeMap<String, Attempts>,
}

/// Refused deliveries of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    pub(crate) refusals: u32,
    /// Time of the next attempt; `None`: immediately.
    pub(crate) next: Option<Instant>,
}

/// Kind of the documents of an outbox.
fn kind(webhook: &str) -> String {
    format!("webhook-outbox-{webhook}")
}

/// Adds `event` durably to the outbox of `webhook`; no effect if it is there.
pub(crate) async fn add(documents: &DocumentStore, webhook: &str, event: &Event) -> Result<(), StoreError> {
    let name = format!("{:016}-{}", event.timestamp.as_millisecond().max(0), event.id);
    let body = serde_json::to_vec(event).expect("keys are text, and numbers finite");
    documents.add(&kind(webhook), &name, body).await
}

fn time_of(name: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(name.split_once('-')?.0.parse().ok()?).ok()
}

impl Outbox {
    pub(crate) fn new(webhook: &str, documents: DocumentStore) -> Self {
        Self { kind: kind(webhook), webhook: webhook.to_owned(), documents, entries: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reads the names of all events, and drops those beyond the limits.
    pub(crate) async fn refresh(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let names = self.documents.names(&self.kind).await?;
        let former = std::mem::take(&mut self.entries);
        let attempts = |name: &String| former.get(name).copied().unwrap_or_default();
        self.entries =
            names.into_iter().map(|name| (attempts(&name), name)).map(|(tried, name)| (name, tried)).collect();
        let oldest = now.checked_sub(MAX_AGE).unwrap_or(Timestamp::MIN);
        let is_old = |name: &&String| time_of(name).is_none_or(|time| time < oldest);
        let old: Vec<String> = self.entries.keys().take_while(is_old).cloned().collect();
        self.drop_all(old, "age").await?;
        let excess = self.entries.len().saturating_sub(MAX_EVENTS);
        let first: Vec<String> = self.entries.keys().take(excess).cloned().collect();
        self.drop_all(first, "count").await?;
        self.show();
        Ok(())
    }

    /// First event that is due, or else the time of the next one.
    pub(crate) fn due(&self) -> Result<String, Option<Instant>> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        for (name, attempts) in &self.entries {
            match attempts.next {
                Some(at) if at > now => next = Some(next.map_or(at, |next| next.min(at))),
                _ => return Ok(name.clone()),
            }
        }
        Err(next)
    }

    /// Event `name`; `None` if it is gone. An unreadable one is dropped.
    pub(crate) async fn read(&mut self, name: &str) -> Result<Option<Event>, StoreError> {
        let Some(body) = self.documents.read(&self.kind, name).await? else {
            self.entries.remove(name);
            return Ok(None);
        };
        let event = serde_json::from_slice(&body).ok();
        if event.is_none() {
            self.drop_all(vec![name.to_owned()], "unreadable").await?;
        }
        Ok(event)
    }

    /// Removes the delivered event `name`.
    pub(crate) async fn remove(&mut self, name: &str) -> Result<(), StoreError> {
        self.documents.remove(&self.kind, name).await?;
        self.entries.remove(name);
        self.show();
        Ok(())
    }

    /// Delays the event `name` after a refusal.
    pub(crate) fn delay(&mut self, name: &str, attempts: Attempts) {
        if let Some(entry) = self.entries.get_mut(name) {
            *entry = attempts;
        }
    }

    pub(crate) fn attempts(&self, name: &str) -> Attempts {
        self.entries.get(name).copied().unwrap_or_default()
    }

    /// Drops undelivered events for `reason`.
    pub(crate) async fn drop_all(&mut self, names: Vec<String>, reason: &'static str) -> Result<(), StoreError> {
        for name in names {
            self.documents.remove(&self.kind, &name).await?;
            self.entries.remove(&name);
            telemetry().webhook_event_dropped(&self.webhook, reason);
            let event = name.split_once('-').map_or(name.as_str(), |(_, id)| id);
            tracing::warn!(webhook.name = self.webhook, event.id = event, reason, "an undelivered event was dropped");
        }
        Ok(())
    }

    fn show(&self) {
        telemetry().webhook_events_pending(&self.webhook, self.entries.len());
    }
}
