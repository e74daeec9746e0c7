//! One caller at a time for each key: a study, or one client of a study.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// A lock for each key that somebody is at.
#[derive(Debug)]
pub(super) struct Turns<K> {
    locks: Mutex<HashMap<K, Lock>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { locks: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// Waits for the caller's turn at `key`, which ends when the returned value is dropped.
    pub(super) async fn take(&self, key: &K) -> Turn<'_, K> {
        let lock = Arc::clone(self.locks().entry(key.clone()).or_default());
        let guard = Arc::clone(&lock).lock_owned().await;
        Turn { turns: self, key: key.clone(), lock, guard: Some(guard) }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<K, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller's turn at a key.
pub(super) struct Turn<'a, K: Clone + Eq + Hash> {
    turns: &'a Turns<K>,
    key: K,
    lock: Lock,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K: Clone + Eq + Hash> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.turns.locks();
        // This value and the map have it; whoever waits has it too.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.key);
        }
    }
}
