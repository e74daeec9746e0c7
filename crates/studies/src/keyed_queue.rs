//! Mutual exclusion by key, for example per study or per client of a study.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// A FIFO lock per key in use.
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
    /// Waits until all earlier callers with the same `key` have dropped their guards.
    pub(super) async fn enter(&self, key: &K) -> Entered<'_, K> {
        let lock = Arc::clone(self.locks().entry(key.clone()).or_default());
        let guard = Arc::clone(&lock).lock_owned().await;
        Entered { queues: self, key: key.clone(), lock, guard: Some(guard) }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<K, Lock>> {
        self.locks.lock()
    }
}

/// Guard for exclusive use of a key.
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
        // Held only by this guard and the map; waiting callers hold it too.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.key);
        }
    }
}
