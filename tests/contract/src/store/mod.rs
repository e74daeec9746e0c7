//! Checks of every guarantee of a [`Store`]. Every implementation passes all of them.
//!
//! ```
//! use std::sync::Arc;
//! use tunesmith_contract::store;
//! use tunesmith_store::MemoryStore;
//! use tunesmith_store::Store;
//!
//! struct Memory(Arc<MemoryStore>);
//!
//! #[async_trait::async_trait]
//! impl store::Medium for Memory {
//!     async fn open(&self) -> Arc<dyn Store> {
//!         self.0.clone()
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().build()?.block_on(
//! store::check(|| Memory(Arc::new(MemoryStore::new())))
//! # );
//! # Ok::<(), std::io::Error>(())
//! ```

mod concurrency;
mod copies;
mod curves;
mod forwarding;
mod jobs;
mod leases;
mod studies;
mod trials;

use std::sync::Arc;

use async_trait::async_trait;

pub use forwarding::{Counting, CountingStore, Forward, Forwarding};

use crate::samples;
use tunesmith_store::{Store, StoreError};

/// The medium of a store: a folder, a file or a database, which outlives the open store.
#[async_trait]
pub trait Medium: Send + Sync {
    /// Opens the store: first an empty one, later the one that was closed by dropping it. A store that is not durable
    /// returns the same instance again.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Runs every check, each on a store of its own on a new medium. Requires a Tokio runtime, preferably with several threads.
///
/// # Panics
/// If the store violates the contract.
pub async fn check<P: Medium>(new_medium: impl Fn() -> P) {
    copies::contain_every_record(&new_medium()).await;
    jobs::are_created_once(&new_medium()).await;
    jobs::are_listed_in_order_by_pages(&new_medium()).await;
    jobs::allow_legal_changes_only(&new_medium()).await;
    jobs::studies_allow_legal_changes_only(&new_medium()).await;
    jobs::ended_jobs_are_retried_with_their_failed_trials(&new_medium()).await;
    jobs::trials_are_only_added_to_jobs(&new_medium()).await;
    jobs::ended_jobs_are_deleted_with_their_trials(&new_medium()).await;
    studies::are_created_once(&new_medium()).await;
    studies::are_listed_by_location_and_pages(&new_medium()).await;
    studies::are_deleted_with_their_trials(&new_medium()).await;
    studies::of_many_trials_are_deleted_in_steps(&new_medium()).await;
    studies::keep_their_last_summary(&new_medium()).await;
    trials::are_numbered_without_gaps(&new_medium()).await;
    trials::are_listed_in_order_by_pages(&new_medium()).await;
    trials::are_created_with_their_curves(&new_medium()).await;
    trials::pass_through_all_states(&new_medium()).await;
    trials::metadata_is_kept_in_every_state(&new_medium()).await;
    trials::a_note_is_replaced_only_if_it_is_the_one_that_was_read(&new_medium()).await;
    trials::a_repeated_report_is_applied_once(&new_medium()).await;
    trials::refuse_illegal_changes(&new_medium()).await;
    trials::count_preemptions_apart(&new_medium()).await;
    trials::stopped_trials_go_on(&new_medium()).await;
    trials::keep_the_nodes_of_attempts(&new_medium()).await;
    trials::add_deliveries_once(&new_medium()).await;
    trials::are_completed_once(&new_medium()).await;
    trials::are_listed_by_revision(&new_medium()).await;
    trials::of_two_studies_are_separate(&new_medium()).await;
    leases::batches_of_trials_are_atomic(&new_medium()).await;
    leases::open_trials_are_those_without_a_result(&new_medium()).await;
    leases::leases_end_unless_they_are_renewed(&new_medium()).await;
    leases::a_former_owner_is_refused(&new_medium()).await;
    curves::keep_every_bit(&new_medium()).await;
    curves::are_paged(&new_medium()).await;
    curves::hold_a_hundred_thousand_measurements(&new_medium()).await;
    concurrency::every_number_is_assigned_once(&new_medium()).await;
    concurrency::one_of_many_completions_is_applied(&new_medium()).await;
    concurrency::a_refused_change_does_not_affect_its_group(&new_medium()).await;
    concurrency::revisions_are_read_in_order(&new_medium()).await;
}

/// Closes `store` and opens it again.
async fn reopen(medium: &impl Medium, store: Arc<dyn Store>) -> Arc<dyn Store> {
    drop(store);
    medium.open().await
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
