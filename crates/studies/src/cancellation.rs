//! Cancellable suggestions, registered from start to end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tunesmith_algorithms::interruption::Interruption;

use super::{StudiesError, SuggestionOperation};
use tunesmith_domain::StudyId;

/// Cancellation request for one suggestion, effective while it waits and while it computes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancellation {
    interruption: Interruption,
    requested: Arc<watch::Sender<bool>>,
}

impl Cancellation {
    pub(super) fn cancel(&self) {
        self.interruption.interrupt();
        self.requested.send_replace(true);
    }

    pub(super) fn interruption(&self) -> &Interruption {
        &self.interruption
    }

    /// Waits for `queue`, a queue of `study`.
    pub(super) async fn unless<T>(&self, study: &StudyId, queue: impl Future<Output = T>) -> Result<T, StudiesError> {
        let mut requested = self.requested.subscribe();
        tokio::select! {
            biased;
            _ = requested.wait_for(|requested| *requested) => Err(StudiesError::Cancelled(study.clone())),
            entered = queue => Ok(entered),
        }
    }
}

/// Suggestions computing or queued in this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancellations(Arc<Mutex<HashMap<SuggestionOperation, Cancellation>>>);

impl Cancellations {
    /// Registers `operation` until the returned value is dropped, which stops any remaining computation.
    pub(super) fn register(&self, operation: &SuggestionOperation) -> Registered {
        let cancellation = Cancellation::default();
        self.0.lock().insert(operation.clone(), cancellation.clone());
        Registered { cancellations: self.clone(), operation: operation.clone(), cancellation }
    }

    pub(super) fn cancel(&self, operation: &SuggestionOperation) {
        self.0.lock().get(operation).iter().for_each(|cancellation| cancellation.cancel());
    }

    pub(super) fn cancel_all(&self, study: &StudyId) {
        let operations = self.0.lock();
        let of_study = operations.iter().filter(|(operation, _)| operation.study == *study);
        of_study.for_each(|(_, cancellation)| cancellation.cancel());
    }
}

pub(super) struct Registered {
    cancellations: Cancellations,
    operation: SuggestionOperation,
    pub(super) cancellation: Cancellation,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancellation.cancel();
        self.cancellations.0.lock().remove(&self.operation);
    }
}
