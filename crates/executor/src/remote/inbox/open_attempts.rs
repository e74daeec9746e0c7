//! The attempts that this process works on, each with a lock of its own, so that the reports of one do not wait for another's.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::ExecutorJobId;

/// The attempts of an inbox.
#[derive(Debug, Default)]
pub(super) struct OpenAttempts(Mutex<HashMap<ExecutorJobId, Arc<OpenAttempt>>>);

#[derive(Debug, Default)]
pub(super) struct OpenAttempt(Mutex<Known>);

/// Facts of an attempt that are known without reading its files.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The tasks of all its replicas, once its specification was read.
    pub(super) tasks: Option<Vec<String>>,
}

impl OpenAttempts {
    pub(super) fn get(&self, id: &ExecutorJobId) -> Arc<OpenAttempt> {
        Arc::clone(self.all().entry(id.clone()).or_default())
    }

    /// Forgets the attempts that `is_over` accepts and that are not in use.
    pub(super) fn forget(&self, is_over: impl Fn(&ExecutorJobId) -> bool) {
        self.all().retain(|id, attempt| !is_over(id) || Arc::strong_count(attempt) > 1);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ExecutorJobId, Arc<OpenAttempt>>> {
        self.0.lock()
    }
}

impl OpenAttempt {
    /// Waits for the exclusive use of the attempt. Blocks.
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}
