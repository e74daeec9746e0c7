//! Mutual exclusion by key: one caller at a time for each study, or for each client of a study.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// A first-in, first-out lock for each key that is in use.
#[derive(Debug)]
pub(super) struct KeyedQueues<K> {
    locks: Mutex<HashMap<K, Lock>>,
}

impl<K> Default for KeyedQueues<K> {
    fn default() -> Self {
        Self { locks: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash> KeyedQueues<K> {
    /// Waits until all earlier callers with the same `key` have left. The caller leaves when it drops the returned value.
    pub(super) async fn enter(&self, key: &K) -> Entered<'_, K> {
        let lock = Arc::clone(self.locks().entry(key.clone()).or_default());
        let guard = Arc::clone(&lock).lock_owned().await;
        Entered { queues: self, key: key.clone(), lock, guard: Some(guard) }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<K, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exclusive use of a key, until it is dropped.
pub(super) struct Entered<'a, K: Clone + Eq + Hash> {
    queues: &'a KeyedQueues<K>,
    key: K,
    lock: Lock,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K: Clone + Eq + Hash> Drop for Entered<'_, K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.queues.locks();
        // This value and the map hold the lock; callers that wait hold it too.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.key);
        }
    }
}
