//! The task that delivers the outbox of one webhook.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tunesmith_store::StoreError;
use tunesmith_telemetry::telemetry;

use crate::outbox::{Attempts, Outbox};
use crate::sender::{DeliveryError, Sender};
use crate::service::{Now, with_causes};
use crate::{DocumentStore, Webhook};

/// Interval between reads of the outbox while it has events, and while another server may add some.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// Pause after the first failure, doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Refusals of an event after which it is dropped.
const MAX_REFUSALS: u32 = 8;
/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(5);
/// Lease of the server that delivers a webhook.
const LEASE: SignedDuration = SignedDuration::from_secs(45);
const LEASES: &str = "webhook-lease";

pub(crate) struct Delivery {
    pub(crate) webhook: Arc<Webhook>,
    sender: Sender,
    documents: DocumentStore,
    /// Unique name of this process.
    server: String,
    now: Now,
    wake: Notify,
    /// Whether the outbox may have events that were not counted.
    is_unread: AtomicBool,
    pending: AtomicUsize,
}

/// Right of one server to deliver a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    server: String,
    until: Timestamp,
}

impl Delivery {
    pub(crate) fn new(
        webhook: Arc<Webhook>,
        documents: DocumentStore,
        server: String,
        now: Now,
    ) -> Result<Self, tunesmith_client::ClientFailure> {
        let sender = Sender::new(Arc::clone(&webhook))?;
        let (wake, is_unread, pending) = (Notify::new(), AtomicBool::new(true), AtomicUsize::new(0));
        Ok(Self { webhook, sender, documents, server, now, wake, is_unread, pending })
    }

    /// Wakes the task after an event was added.
    pub(crate) fn wake(&self) {
        self.is_unread.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Number of undelivered events; `None` before they were counted.
    pub(crate) fn pending(&self) -> Option<usize> {
        let is_unread = self.is_unread.load(Ordering::Acquire);
        Some(self.pending.load(Ordering::Acquire)).filter(|_| !is_unread)
    }

    /// Delivers events as they are added. Never completes.
    pub(crate) async fn run(&self) {
        let mut outbox = Outbox::new(self.webhook.name(), self.documents.clone());
        let mut failures = 0;
        loop {
            match self.pass(&mut outbox, &mut failures).await {
                Ok(pause) => self.wait(pause).await,
                Err(error) => {
                    tracing::warn!(webhook.name = self.webhook.name(), error = %with_causes(&error), "the outbox cannot be used");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    async fn wait(&self, pause: Pause) {
        match pause {
            // New events wait, too: the receiver accepts none.
            Pause::Fixed(time) => tokio::time::sleep(time).await,
            Pause::UntilEvent(None) => self.wake.notified().await,
            Pause::UntilEvent(Some(time)) => {
                let _ = tokio::time::timeout(time, self.wake.notified()).await;
            }
        }
    }

    /// Delivers events until there are none, or until one is not accepted.
    async fn pass(&self, outbox: &mut Outbox, failures: &mut u32) -> Result<Pause, StoreError> {
        let mut refreshed: Option<Instant> = None;
        loop {
            let is_unread = self.is_unread.swap(false, Ordering::AcqRel);
            if is_unread || refreshed.is_none_or(|at| at.elapsed() >= REFRESH_INTERVAL) {
                let read = outbox.refresh((self.now)()).await;
                self.pending.store(outbox.len(), Ordering::Release);
                if let Err(error) = read {
                    self.is_unread.store(true, Ordering::Release);
                    return Err(error);
                }
                refreshed = Some(Instant::now());
            }
            let name = match outbox.due() {
                Ok(name) => name,
                Err(next) => {
                    let next = next.map(|at| at.saturating_duration_since(Instant::now()));
                    let poll = self.documents.is_shared().then_some(REFRESH_INTERVAL);
                    return Ok(Pause::UntilEvent([next, poll].into_iter().flatten().min()));
                }
            };
            if !self.has_lease().await? {
                return Ok(Pause::Fixed(REFRESH_INTERVAL));
            }
            let Some(event) = outbox.read(&name).await? else { continue };
            let result = self.sender.send(&event, (self.now)()).await;
            let webhook = self.webhook.name();
            match result {
                Ok(_) => {
                    telemetry().webhook_delivery(webhook, "delivered");
                    if std::mem::take(failures) > 0 {
                        tracing::info!(webhook.name = webhook, "deliveries succeed again");
                    }
                    outbox.remove(&name).await?;
                    self.pending.store(outbox.len(), Ordering::Release);
                }
                Err(error @ DeliveryError::Refused { .. }) => {
                    telemetry().webhook_delivery(webhook, "refused");
                    let refusals = outbox.attempts(&name).refusals + 1;
                    tracing::warn!(webhook.name = webhook, event.id = event.id, %error, refusals, "an event was refused");
                    if refusals >= MAX_REFUSALS {
                        outbox.drop_all(vec![name], "refused").await?;
                        self.pending.store(outbox.len(), Ordering::Release);
                    } else {
                        let next = Some(Instant::now() + back_off(refusals));
                        outbox.delay(&name, Attempts { refusals, next });
                    }
                }
                Err(error) => {
                    telemetry().webhook_delivery(webhook, "failed");
                    *failures = failures.saturating_add(1);
                    let pause = match error {
                        DeliveryError::Failed { retry_after: Some(pause), .. } => pause.max(FIRST_PAUSE),
                        _ => back_off(*failures),
                    };
                    let pause_ms = pause.as_millis() as u64;
                    if *failures == 1 {
                        tracing::warn!(webhook.name = webhook, %error, pause_ms, "a delivery failed; it is repeated");
                    } else {
                        tracing::debug!(webhook.name = webhook, %error, pause_ms, "a delivery failed again");
                    }
                    return Ok(Pause::Fixed(pause));
                }
            }
        }
    }

    /// Whether this server delivers the webhook: the only one on its store, or the one with the lease.
    async fn has_lease(&self) -> Result<bool, StoreError> {
        if !self.documents.is_shared() {
            return Ok(true);
        }
        let name = self.webhook.name();
        let now = (self.now)();
        let body = self.documents.read(LEASES, name).await?;
        let lease: Option<Lease> = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
        let is_own = lease.as_ref().is_some_and(|lease| lease.server == self.server);
        let is_long = |lease: &Lease| lease.until.duration_since(now) > LEASE / 2;
        match &lease {
            Some(lease) if is_own && is_long(lease) => return Ok(true),
            Some(lease) if !is_own && lease.until > now => return Ok(false),
            _ => {}
        }
        let renewed = Lease { server: self.server.clone(), until: now.checked_add(LEASE).unwrap_or(Timestamp::MAX) };
        let renewed = serde_json::to_vec(&renewed).expect("a lease has text keys and no numbers");
        self.documents.replace(LEASES, name, body, renewed).await
    }
}

enum Pause {
    Fixed(Duration),
    /// Until an event is added, or for a time.
    UntilEvent(Option<Duration>),
}

/// Pause after a number of failures: doubled each time, and between half and all of it, so that receivers of many servers
/// are not flooded at the same time.
fn back_off(failures: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MAX_PAUSE);
    longest.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        for (failures, longest) in [(1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (u32::MAX, 300.0)] {
            let pause = back_off(failures).as_secs_f64();
            assert!((longest / 2.0..=longest).contains(&pause), "{failures}: {pause}");
        }
    }
}
