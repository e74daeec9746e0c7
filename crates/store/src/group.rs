//! Changes that wait for one commit, and the answers to their callers.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::engine::Changes;
use super::{StoreError, StoreFault};

/// The outcome of a group of changes.
pub(crate) enum CommitOutcome {
    /// All changes are durable, except those that were refused.
    Committed,
    /// No change was made.
    RolledBack(Arc<StoreError>),
    /// The changes may or may not have been made.
    Unknown(StoreFault),
}

/// A waiting change with any type of result.
pub(crate) trait Request: Send {
    /// Runs the change; returns whether to commit it.
    fn run(&mut self, records: &dyn Changes) -> bool;
    /// Sends the result to the caller.
    fn answer(self: Box<Self>, outcome: &CommitOutcome);
}

/// A waiting change with the result `T`.
pub(crate) struct TypedRequest<T, F> {
    change: F,
    result: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> TypedRequest<T, F> {
    /// The change whose result is sent to `answer` after its commit.
    pub(crate) fn new(change: F, answer: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { change, result: None, answer }
    }
}

impl<T, F> Request for TypedRequest<T, F>
where
    T: Send,
    F: Fn(&dyn Changes) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, records: &dyn Changes) -> bool {
        self.result.insert((self.change)(records)).is_ok()
    }

    fn answer(self: Box<Self>, outcome: &CommitOutcome) {
        let result = match (self.result, outcome) {
            // A refused change keeps its own error, even if the group failed afterwards.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), CommitOutcome::Committed) => Ok(value),
            (Some(Ok(_)), CommitOutcome::Unknown(fault)) => {
                Err(StoreError::Unknown { source: Box::new(fault.clone()) })
            }
            (Some(Ok(_)) | None, CommitOutcome::RolledBack(source)) => Err(match source.fault() {
                Some(fault) => StoreError::not_applied(fault.clone()),
                None => StoreError::NotApplied { operation: "write", source: Box::new(Arc::clone(source)) },
            }),
            (None, _) => Err(StoreError::NotApplied { operation: "write", source: "its group was rolled back".into() }),
        };
        // The caller may no longer wait; its change is applied all the same.
        let _ = self.answer.send(result);
    }
}
