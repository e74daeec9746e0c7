//! A cache of values of studies with a memory limit; the least recently used ones are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tunesmith_domain::StudyId;

/// A value for each of some studies.
pub(crate) struct BoundedCache<T> {
    memory: usize,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    by_study: HashMap<StudyId, Entry<T>>,
    /// Counts uses.
    now: u64,
}

struct Entry<T> {
    value: Arc<T>,
    used: u64,
    bytes: usize,
    /// Number of [`BoundedCache::drop_idle`] since the last use.
    idle: u32,
}

impl<T> BoundedCache<T> {
    /// A cache of `memory` bytes, which always keeps the value that was used last.
    pub(crate) fn new(memory: usize) -> Self {
        Self { memory, entries: Mutex::new(Entries { by_study: HashMap::new(), now: 0 }) }
    }

    /// The cached value of `study`. Counts as a use.
    pub(crate) fn get(&self, study: &StudyId) -> Option<Arc<T>> {
        let mut entries = self.lock();
        entries.now += 1;
        let now = entries.now;
        let entry = entries.by_study.get_mut(study)?;
        entry.used = now;
        entry.idle = 0;
        Some(Arc::clone(&entry.value))
    }

    /// The cached value of `study`; inserts `fresh`, which takes `bytes`, if there is none.
    pub(crate) fn get_or_insert(&self, study: &StudyId, fresh: T, bytes: usize) -> Arc<T> {
        let mut entries = self.lock();
        entries.now += 1;
        let used = entries.now;
        let new = || Entry { value: Arc::new(fresh), used, bytes, idle: 0 };
        Arc::clone(&entries.by_study.entry(study.clone()).or_insert_with(new).value)
    }

    /// Sets the size of the value of `study`, and removes the least recently used values if the memory limit is exceeded.
    /// Returns the removed ones: to drop a large value takes a while. They remain usable for their holders.
    #[must_use]
    pub(crate) fn set_size(&self, study: &StudyId, bytes: usize) -> Vec<Arc<T>> {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_study.get_mut(study) {
            entry.bytes = bytes;
        }
        let mut removed = Vec::new();
        while entries.by_study.values().map(|entry| entry.bytes).sum::<usize>() > self.memory {
            let Some(oldest) = entries.remove_oldest(|id, _| id != study) else { break };
            removed.push(oldest.value);
        }
        removed
    }

    /// Drops the least recently used value that was not used since the last [`Self::drop_idle`]; returns whether there was
    /// one.
    pub(crate) fn drop_unused(&self) -> bool {
        // Dropped after the lock is released: a large value takes a while.
        let dropped = self.lock().remove_oldest(|_, entry| entry.idle > 0);
        dropped.is_some()
    }

    /// Drops the least recently used value that is not in use, except for the one that was used last, which the next request
    /// needs; returns whether there was one.
    pub(crate) fn drop_oldest(&self) -> bool {
        let mut entries = self.lock();
        let last = entries.by_study.values().map(|entry| entry.used).max();
        let dropped =
            entries.remove_oldest(|_, entry| Some(entry.used) != last && Arc::strong_count(&entry.value) == 1);
        drop(entries);
        dropped.is_some()
    }

    /// Drops the values that were not used during the last `calls` calls of this function, and returns their number.
    pub(crate) fn drop_idle(&self, calls: u32) -> usize {
        let mut dropped = Vec::new();
        let mut entries = self.lock();
        let by_study = std::mem::take(&mut entries.by_study);
        for (study, mut entry) in by_study {
            entry.idle = entry.idle.saturating_add(1);
            if entry.idle <= calls {
                entries.by_study.insert(study, entry);
            } else {
                dropped.push(entry);
            }
        }
        drop(entries);
        dropped.len()
    }

    /// Drops the value of `study`.
    pub(crate) fn remove(&self, study: &StudyId) {
        self.lock().by_study.remove(study);
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Entries<T> {
    /// Removes the least recently used value of those that `may_go`.
    fn remove_oldest(&mut self, may_go: impl Fn(&StudyId, &Entry<T>) -> bool) -> Option<Entry<T>> {
        let candidates = self.by_study.iter().filter(|(id, entry)| may_go(id, entry));
        let oldest = candidates.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())?;
        self.by_study.remove(&oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> StudyId {
        format!("p/l/{name}").parse().unwrap()
    }

    fn cached(cache: &BoundedCache<u8>) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|name| cache.lock().by_study.contains_key(&id(name))).collect()
    }

    #[test]
    fn values_in_use_and_the_last_one_are_kept() {
        let cache = BoundedCache::new(100);
        let in_use = cache.get_or_insert(&id("a"), 1, 10);
        for name in ["b", "c"] {
            drop(cache.get_or_insert(&id(name), 1, 10));
        }
        assert!(cache.drop_oldest());
        assert_eq!(cached(&cache), ["a", "c"]);
        assert!(!cache.drop_oldest(), "one is in use, the other was used last");
        drop(in_use);
        assert!(cache.drop_oldest());
        assert_eq!(cached(&cache), ["c"]);
        assert!(!cache.drop_unused());
        assert_eq!(cache.drop_idle(1), 0);
        assert!(cache.drop_unused(), "it was not used for a while");
        assert_eq!(cached(&cache), [""; 0]);
    }

    #[test]
    fn large_value_removes_older_ones_only_beyond_the_limit() {
        let cache = BoundedCache::new(100);
        for name in ["a", "b", "c"] {
            drop(cache.get_or_insert(&id(name), 1, 10));
        }
        assert_eq!(cache.set_size(&id("c"), 85).len(), 1);
        assert_eq!(cached(&cache), ["b", "c"]);
        assert_eq!(cache.set_size(&id("c"), 1000).len(), 1);
        assert_eq!(cached(&cache), ["c"]);
    }
}
