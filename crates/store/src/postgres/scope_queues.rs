//! Group commit: changes of one job or study waiting in this process share a transaction.
//!
//! The database would serialize changes of one study anyway, each waiting for the previous sync. Different studies use
//! different transactions, so that none waits for another and servers cannot deadlock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::Core;
use crate::engine::Scope;
use crate::group::Request;
use parking_lot::Mutex;
use tunesmith_telemetry::telemetry;

/// Maximum number of changes per transaction. A guess: other servers wait for its locks.
const MAX_GROUP: usize = 64;

pub(super) struct ScopeQueues {
    core: Arc<Core>,
    /// Contains every job and study with a running transaction.
    waiting: Mutex<HashMap<Scope, Vec<Box<dyn Request>>>>,
}

impl ScopeQueues {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, waiting: Mutex::default() }
    }

    /// Enqueues a change, answered after its commit.
    pub(super) fn add(self: &Arc<Self>, scope: Scope, request: Box<dyn Request>) {
        let mut waiting = self.waiting.lock();
        if let Some(lane) = waiting.get_mut(&scope) {
            lane.push(request);
            return;
        }
        waiting.insert(scope.clone(), vec![request]);
        drop(waiting);
        // A separate task, so that other callers' changes survive this caller.
        let queues = Arc::clone(self);
        self.core.runtime.spawn(async move { queues.empty(scope).await });
    }

    /// Commits the changes of `scope` until the queue is empty.
    async fn empty(self: Arc<Self>, scope: Scope) {
        loop {
            let permit = self.core.sessions.permit().await;
            let mut group = {
                let mut waiting = self.waiting.lock();
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
            // After a panic, the group's callers get an unknown outcome.
            if let Err(error) = committed.await {
                tracing::error!(error = &error as &dyn std::error::Error, "a group of changes ended unexpectedly");
            }
        }
    }
}
