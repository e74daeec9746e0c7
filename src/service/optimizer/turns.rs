//! One caller at a time for each study.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::domain::StudyId;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// A lock for each study that somebody is at.
#[derive(Debug, Default)]
pub(super) struct Turns {
    locks: Mutex<HashMap<StudyId, Lock>>,
}

impl Turns {
    /// Waits for the caller's turn at `study`, which ends when the returned value is dropped.
    pub(super) async fn take(&self, study: &StudyId) -> Turn<'_> {
        let lock = Arc::clone(self.locks().entry(study.clone()).or_default());
        let guard = Arc::clone(&lock).lock_owned().await;
        Turn { turns: self, study: study.clone(), lock, guard: Some(guard) }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<StudyId, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller's turn at a study.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    study: StudyId,
    lock: Lock,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.turns.locks();
        // This value and the map have it; whoever waits has it too.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.study);
        }
    }
}
