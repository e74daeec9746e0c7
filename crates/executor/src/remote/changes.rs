//! Change notifications per attempt.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// Notifies the subscribers of the attempt with the key `K` of changes. Clones share their subscribers.
#[derive(Debug, Clone)]
pub struct Changes<K>(Arc<Mutex<HashMap<K, watch::Sender<()>>>>);

/// Changes of one attempt since the last [`Subscription::begin`].
#[derive(Debug)]
pub struct Subscription<K: Eq + Hash> {
    receiver: watch::Receiver<()>,
    key: K,
    changes: Changes<K>,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Changes<K> {
    fn senders(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<()>>> {
        self.0.lock()
    }
}

impl<K: Eq + Hash + Clone> Changes<K> {
    /// Subscribes to changes of the attempt `key` from now on.
    pub fn subscribe(&self, key: K) -> Subscription<K> {
        let receiver = self.senders().entry(key.clone()).or_default().subscribe();
        Subscription { receiver, key, changes: self.clone() }
    }

    /// Notifies the subscribers of the attempt `key`.
    pub fn notify(&self, key: &K) {
        if let Some(sender) = self.senders().get(key) {
            sender.send_replace(());
        }
    }

    /// Notifies all subscribers.
    pub fn notify_all(&self) {
        for sender in self.senders().values() {
            sender.send_replace(());
        }
    }
}

impl<K: Eq + Hash> Subscription<K> {
    /// Ignores changes so far, which the caller is about to read itself.
    pub fn begin(&mut self) {
        self.receiver.mark_unchanged();
    }

    /// Waits for a change since [`Self::begin`].
    pub async fn changed(&mut self) {
        // The sender lives until the last subscription is dropped.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl<K: Eq + Hash> Drop for Subscription<K> {
    fn drop(&mut self) {
        let mut senders = self.changes.senders();
        if senders.get(&self.key).is_some_and(|sender| sender.receiver_count() == 1) {
            senders.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn subscribers_of_an_attempt_are_notified_of_its_changes_only() {
        let changes = Changes::default();
        let (mut one, mut same, mut other) = (changes.subscribe(1), changes.subscribe(1), changes.subscribe(2));
        changes.clone().notify(&1);
        assert!(one.changed().now_or_never().is_some() && same.changed().now_or_never().is_some());
        assert!(one.changed().now_or_never().is_none() && other.changed().now_or_never().is_none());
        changes.notify_all();
        one.begin();
        assert!(one.changed().now_or_never().is_none() && other.changed().now_or_never().is_some());
        drop(one);
        changes.notify(&1);
        assert!(same.changed().now_or_never().is_some(), "another subscription has ended");
        drop((same, other));
        assert!(changes.senders().is_empty());
    }
}
