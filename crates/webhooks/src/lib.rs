#![doc = include_str!("../README.md")]

mod cursor;
mod delivery;
mod documents;
mod event;
mod filter;
mod outbox;
mod sender;
mod service;
mod settings;

pub use documents::DocumentStore;
pub use event::{Event, EventData, EventKind, TrialData};
pub use filter::EventFilter;
pub use sender::{DeliveryError, send_test};
pub use service::{Webhooks, Wiring};
pub use settings::{Format, Webhook, WebhookError, WebhookFields};
