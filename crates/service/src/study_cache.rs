//! State of studies that can be read from the store again, dropped when it is not used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tunesmith_domain::StudyId;

/// A value for each of some studies.
pub(crate) struct StudyCache<T>(Mutex<HashMap<StudyId, Entry<T>>>);

struct Entry<T> {
    value: Arc<tokio::sync::Mutex<T>>,
    /// Number of [`StudyCache::drop_idle`] since the last use.
    idle: u32,
}

impl<T> Default for StudyCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> StudyCache<T> {
    /// The value of `study`, which is `fresh` if there is none.
    pub(crate) fn get_or_insert(&self, study: &StudyId, fresh: impl FnOnce() -> T) -> Arc<tokio::sync::Mutex<T>> {
        let mut entries = self.entries();
        let new = || Entry { value: Arc::new(tokio::sync::Mutex::new(fresh())), idle: 0 };
        let entry = entries.entry(study.clone()).or_insert_with(new);
        entry.idle = 0;
        Arc::clone(&entry.value)
    }

    /// Drops the value of `study`.
    pub(crate) fn forget(&self, study: &StudyId) {
        self.entries().remove(study);
    }

    /// Drops the values that were not used during the last `calls` calls of this function, and returns their number. A
    /// dropped value remains usable for its holders.
    pub(crate) fn drop_idle(&self, calls: u32) -> usize {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|_, entry| {
            entry.idle = entry.idle.saturating_add(1);
            entry.idle <= calls
        });
        before - entries.len()
    }

    /// Drops the values that were not used since the last [`Self::drop_idle`], and returns their number.
    pub(crate) fn drop_unused(&self) -> usize {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|_, entry| entry.idle == 0);
        before - entries.len()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<StudyId, Entry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unused_values_are_dropped_and_remain_usable() {
        let cache = StudyCache::default();
        let (used, unused): (StudyId, StudyId) = ("p/l/a".parse().unwrap(), "p/l/b".parse().unwrap());
        let held = cache.get_or_insert(&unused, || 1);
        *held.lock().await += 1;
        for _ in 0..2 {
            cache.get_or_insert(&used, || 7);
            assert_eq!(cache.drop_idle(2), 0);
        }
        cache.get_or_insert(&used, || 8);
        assert_eq!(cache.drop_idle(2), 1);
        assert_eq!(*held.lock().await, 2);
        assert_eq!(*cache.get_or_insert(&unused, || 5).lock().await, 5);
        assert_eq!(*cache.get_or_insert(&used, || 9).lock().await, 7);
        assert_eq!(cache.drop_unused(), 0);
        cache.drop_idle(2);
        cache.get_or_insert(&used, || 9);
        assert_eq!(cache.drop_unused(), 1);
    }
}
