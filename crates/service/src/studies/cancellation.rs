//! Suggestions that can be cancelled: each has an entry from its start to its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tunesmith_algorithms::interruption::Interruption;

use super::{StudiesError, SuggestionOperation};
use tunesmith_domain::StudyId;

/// A request to end one suggestion: while it waits, and while it computes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancellation {
    interruption: Interruption,
    requested: Arc<watch::Sender<bool>>,
}

impl Cancellation {
    /// Requests the end.
    pub(super) fn cancel(&self) {
        self.interruption.interrupt();
        self.requested.send_replace(true);
    }

    /// The request, for computations.
    pub(super) fn interruption(&self) -> &Interruption {
        &self.interruption
    }

    /// Waits for `queue`, a queue of `study`.
    ///
    /// # Errors
    /// [`StudiesError::Cancelled`].
    pub(super) async fn unless<T>(&self, study: &StudyId, queue: impl Future<Output = T>) -> Result<T, StudiesError> {
        let mut requested = self.requested.subscribe();
        tokio::select! {
            biased;
            _ = requested.wait_for(|requested| *requested) => Err(StudiesError::Cancelled { study: study.clone() }),
            entered = queue => Ok(entered),
        }
    }
}

/// The suggestions that this process computes, or that wait for their turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancellations(Arc<Mutex<HashMap<SuggestionOperation, Cancellation>>>);

impl Cancellations {
    /// Adds `operation` until the returned value is dropped, which ends what still computes.
    pub(super) fn register(&self, operation: &SuggestionOperation) -> Registered {
        let cancellation = Cancellation::default();
        self.lock().insert(operation.clone(), cancellation.clone());
        Registered { cancellations: self.clone(), operation: operation.clone(), cancellation }
    }

    /// Cancels `operation`, if this process computes it.
    pub(super) fn cancel(&self, operation: &SuggestionOperation) {
        self.lock().get(operation).iter().for_each(|cancellation| cancellation.cancel());
    }

    /// Cancels all operations of `study`.
    pub(super) fn cancel_all(&self, study: &StudyId) {
        let operations = self.lock();
        let of_study = operations.iter().filter(|(operation, _)| operation.study == *study);
        of_study.for_each(|(_, cancellation)| cancellation.cancel());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SuggestionOperation, Cancellation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of an operation.
pub(super) struct Registered {
    cancellations: Cancellations,
    operation: SuggestionOperation,
    /// The request to end it.
    pub(super) cancellation: Cancellation,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancellation.cancel();
        self.cancellations.lock().remove(&self.operation);
    }
}
