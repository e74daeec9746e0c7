//! Group of changes awaiting one commit, and the responses to their callers.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::engine::Changes;
use super::{StoreError, StoreFault};

pub(crate) enum CommitOutcome {
    /// All changes are durable, except refused ones.
    Committed,
    /// No change was applied.
    RolledBack(Arc<StoreError>),
    /// The changes may or may not have been applied.
    Unknown(StoreFault),
}

/// A waiting change, independent of its result type.
pub(crate) trait Request: Send {
    /// Runs the change; returns whether to commit it.
    fn run(&mut self, records: &dyn Changes) -> bool;
    /// Sends the result to the caller.
    fn answer(self: Box<Self>, outcome: &CommitOutcome);
}

pub(crate) struct TypedRequest<T, F> {
    change: F,
    result: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> TypedRequest<T, F> {
    /// Sends the result to `answer` after the commit.
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
            // A refused change keeps its own error, even if the group failed later.
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
        // The caller may be gone; its change is applied regardless.
        let _ = self.answer.send(result);
    }
}
