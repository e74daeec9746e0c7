//! Attempts in use by this process, each with its own lock, so that reports of one do not wait for those of another.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::ExecutorJobId;

/// Attempts of an inbox.
#[derive(Debug, Default)]
pub(super) struct OpenAttempts(Mutex<HashMap<ExecutorJobId, Arc<OpenAttempt>>>);

#[derive(Debug, Default)]
pub(super) struct OpenAttempt(Mutex<Known>);

/// Cached facts about an attempt.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Tasks of all its replicas, once its specification was read.
    pub(super) tasks: Option<Vec<String>>,
}

impl OpenAttempts {
    pub(super) fn get(&self, id: &ExecutorJobId) -> Arc<OpenAttempt> {
        Arc::clone(self.all().entry(id.clone()).or_default())
    }

    /// Forgets unused attempts that `is_over` accepts.
    pub(super) fn forget(&self, is_over: impl Fn(&ExecutorJobId) -> bool) {
        self.all().retain(|id, attempt| !is_over(id) || Arc::strong_count(attempt) > 1);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ExecutorJobId, Arc<OpenAttempt>>> {
        self.0.lock()
    }
}

impl OpenAttempt {
    /// Locks the attempt exclusively. Blocks.
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}
