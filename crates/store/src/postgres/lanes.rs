//! Group commit: the changes of one job or study that wait in this process share a transaction.
//!
//! Changes of one study wait for each other in the database anyway, each for the sync of the one before. Changes of
//! different studies have different transactions, so that none waits for another and servers cannot block each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Core;
use crate::engine::Scope;
use crate::group::Request;
use tunesmith_telemetry::telemetry;

/// Maximum number of changes in one transaction. A guess: other servers wait for the locks of the transaction.
const MAX_GROUP: usize = 64;

/// The waiting changes by job or study.
pub(super) struct Lanes {
    core: Arc<Core>,
    /// Contains every job and study of which a transaction runs.
    waiting: Mutex<HashMap<Scope, Vec<Box<dyn Request>>>>,
}

impl Lanes {
    /// No waiting changes.
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, waiting: Mutex::default() }
    }

    /// Adds a change of `scope`. It is answered after its commit.
    pub(super) fn add(self: &Arc<Self>, scope: Scope, request: Box<dyn Request>) {
        let mut waiting = self.waiting();
        if let Some(lane) = waiting.get_mut(&scope) {
            lane.push(request);
            return;
        }
        waiting.insert(scope.clone(), vec![request]);
        drop(waiting);
        // In a task, so that the changes of others do not end with the caller of this one.
        let lanes = Arc::clone(self);
        self.core.runtime.spawn(async move { lanes.empty(scope).await });
    }

    /// Makes the changes of `scope` until none waits.
    async fn empty(self: Arc<Self>, scope: Scope) {
        loop {
            let permit = self.core.sessions.permit().await;
            let mut group = {
                let mut waiting = self.waiting();
                let Some(lane) = waiting.get_mut(&scope) else { return };
                if lane.is_empty() {
                    waiting.remove(&scope);
                    return;
                }
                let count = lane.len().min(MAX_GROUP);
                lane.drain(..count).collect::<Vec<_>>()
            };
            let core = Arc::clone(&self.core);
            let committed = tokio::task::spawn_blocking(move || {
                let begin = Instant::now();
                let outcome = core.commit(&mut group);
                telemetry().commit(group.len(), begin.elapsed());
                for request in group {
                    request.answer(&outcome);
                }
                core.probe();
                drop(permit);
            });
            // After a panic, the callers of the group get the answer that its outcome is unknown.
            if let Err(error) = committed.await {
                tracing::error!(error = &error as &dyn std::error::Error, "a group of changes ended unexpectedly");
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Scope, Vec<Box<dyn Request>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
