//! The contract kit: everything a [`Store`] promises, as checks that every implementation runs in full.
//!
//! ```
//! use std::sync::Arc;
//! use tunesmith::store::{MemoryStore, Store, contract};
//!
//! struct Memory(Arc<MemoryStore>);
//!
//! #[async_trait::async_trait]
//! impl contract::Place for Memory {
//!     async fn open(&self) -> Arc<dyn Store> {
//!         self.0.clone()
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().build()?.block_on(
//! contract::check(|| Memory(Arc::new(MemoryStore::new())))
//! # );
//! # Ok::<(), std::io::Error>(())
//! ```
#![expect(clippy::unwrap_used, reason = "a kit of checks reports a broken promise by a panic")]

mod concurrency;
mod curves;
mod jobs;
mod leases;
pub mod samples;
mod studies;
mod trials;

use std::sync::Arc;

use async_trait::async_trait;

use super::{Store, StoreError};

/// Where a store is kept while it is closed.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the store: an empty one at first, later the one that was closed by dropping it. A store that keeps
    /// nothing returns the same instance again.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Checks every promise, each on a store of its own in a new place. Needs a Tokio runtime, best with several threads.
///
/// # Panics
/// If the store breaks a promise.
pub async fn check<P: Place>(new_place: impl Fn() -> P) {
    jobs::are_created_once(&new_place()).await;
    jobs::are_listed_in_order_by_pages(&new_place()).await;
    jobs::change_as_the_domain_allows(&new_place()).await;
    jobs::studies_change_as_the_domain_allows(&new_place()).await;
    studies::are_created_once(&new_place()).await;
    studies::are_listed_by_place_and_pages(&new_place()).await;
    studies::are_deleted_with_all_they_have(&new_place()).await;
    trials::are_numbered_without_gaps(&new_place()).await;
    trials::are_listed_in_order_by_pages(&new_place()).await;
    trials::go_through_their_life(&new_place()).await;
    trials::a_report_sent_again_counts_once(&new_place()).await;
    trials::refuse_what_the_domain_refuses(&new_place()).await;
    trials::complete_twice_with_one_effect(&new_place()).await;
    trials::tell_what_has_changed(&new_place()).await;
    trials::of_two_studies_do_not_mix(&new_place()).await;
    leases::many_trials_are_created_or_none(&new_place()).await;
    leases::open_trials_are_those_without_a_result(&new_place()).await;
    leases::leases_end_unless_they_are_renewed(&new_place()).await;
    leases::a_former_owner_is_fenced_off(&new_place()).await;
    curves::keep_every_bit(&new_place()).await;
    curves::are_paged(&new_place()).await;
    curves::may_be_long(&new_place()).await;
    concurrency::every_number_is_given_once(&new_place()).await;
    concurrency::one_of_many_completions_counts(&new_place()).await;
    concurrency::a_refusal_does_not_undo_its_neighbours(&new_place()).await;
    concurrency::revisions_are_seen_in_order(&new_place()).await;
}

/// Closes `store` and opens it again.
async fn reopen(place: &impl Place, store: Arc<dyn Store>) -> Arc<dyn Store> {
    drop(store);
    place.open().await
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: &str) {
    match result {
        Err(StoreError::NotFound { resource }) => assert_eq!(resource, expected),
        other => panic!("expected that {expected} is not found, got {other:?}"),
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: &str) {
    match result {
        Err(error @ StoreError::Refused(_)) => {
            assert_eq!(error.to_string(), expected);
            assert!(error.is_certainly_not_applied());
        }
        other => panic!("expected the refusal {expected:?}, got {other:?}"),
    }
}
