//! LRU cache of study values that can be reread from the store.
//!
//! Hand-written, because library caches control eviction themselves: this one evicts on demand under memory pressure,
//! spares values in use or used last, and lets values grow in place.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tunesmith_domain::StudyId;

/// One value per cached study.
pub(crate) struct StudyCache<T> {
    memory: usize,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    by_study: HashMap<StudyId, Entry<T>>,
    /// Use counter.
    now: u64,
}

struct Entry<T> {
    value: Arc<T>,
    used: u64,
    bytes: usize,
    /// Number of [`StudyCache::drop_idle`] calls since the last use.
    idle: u32,
}

impl<T> Default for StudyCache<T> {
    /// A cache of small values, without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl<T> StudyCache<T> {
    /// A cache limited to `memory` bytes, which always retains the value used last.
    pub(crate) fn new(memory: usize) -> Self {
        Self { memory, entries: Mutex::new(Entries { by_study: HashMap::new(), now: 0 }) }
    }

    /// Cached value of `study`; counts as a use.
    pub(crate) fn get(&self, study: &StudyId) -> Option<Arc<T>> {
        let mut entries = self.entries.lock();
        entries.now += 1;
        let now = entries.now;
        let entry = entries.by_study.get_mut(study)?;
        (entry.used, entry.idle) = (now, 0);
        Some(Arc::clone(&entry.value))
    }

    /// Cached value of `study`, or `fresh` of size `bytes` if there is none; counts as a use.
    pub(crate) fn get_or_insert(&self, study: &StudyId, bytes: usize, fresh: impl FnOnce() -> T) -> Arc<T> {
        let mut entries = self.entries.lock();
        entries.now += 1;
        let now = entries.now;
        let new = || Entry { value: Arc::new(fresh()), used: now, bytes, idle: 0 };
        let entry = entries.by_study.entry(study.clone()).or_insert_with(new);
        (entry.used, entry.idle) = (now, 0);
        Arc::clone(&entry.value)
    }

    /// Sets the size of a value, and evicts the least recently used values above the memory limit. Returns the evicted
    /// ones, since dropping a large value takes a while; they remain usable for their holders.
    #[must_use]
    pub(crate) fn set_size(&self, study: &StudyId, bytes: usize) -> Vec<Arc<T>> {
        let mut entries = self.entries.lock();
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

    /// Evicts the least recently used value unused since the last [`Self::drop_idle`]; returns whether there was one.
    pub(crate) fn drop_unused(&self) -> bool {
        // Dropped after releasing the lock: a large value takes a while.
        let dropped = self.entries.lock().remove_oldest(|_, entry| entry.idle > 0);
        dropped.is_some()
    }

    /// Evicts the least recently used value not in use, except the one used last, which the next request needs; returns
    /// whether there was one.
    pub(crate) fn drop_oldest(&self) -> bool {
        let mut entries = self.entries.lock();
        let last = entries.by_study.values().map(|entry| entry.used).max();
        let dropped =
            entries.remove_oldest(|_, entry| Some(entry.used) != last && Arc::strong_count(&entry.value) == 1);
        drop(entries);
        dropped.is_some()
    }

    /// Evicts values unused during the last `calls` calls, and returns their number.
    pub(crate) fn drop_idle(&self, calls: u32) -> usize {
        let mut entries = self.entries.lock();
        let idle = entries.by_study.extract_if(|_, entry| {
            entry.idle = entry.idle.saturating_add(1);
            entry.idle > calls
        });
        // Dropped after releasing the lock: a large value takes a while.
        let dropped: Vec<_> = idle.collect();
        drop(entries);
        dropped.len()
    }

    pub(crate) fn remove(&self, study: &StudyId) {
        self.entries.lock().by_study.remove(study);
    }
}

impl<T> Entries<T> {
    /// Removes the least recently used value for which `may_go` holds.
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

    fn insert(cache: &StudyCache<u8>, name: &str) -> Arc<u8> {
        cache.get_or_insert(&id(name), 10, || 1)
    }

    fn cached(cache: &StudyCache<u8>) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|name| cache.entries.lock().by_study.contains_key(&id(name))).collect()
    }

    #[test]
    fn values_in_use_and_the_last_one_are_kept() {
        let cache = StudyCache::new(100);
        let in_use = insert(&cache, "a");
        for name in ["b", "c"] {
            drop(insert(&cache, name));
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
        let cache = StudyCache::new(100);
        for name in ["a", "b", "c"] {
            drop(insert(&cache, name));
        }
        assert_eq!(cache.set_size(&id("c"), 85).len(), 1);
        assert_eq!(cached(&cache), ["b", "c"]);
        assert_eq!(cache.set_size(&id("c"), 1000).len(), 1);
        assert_eq!(cached(&cache), ["c"]);
    }

    #[test]
    fn unused_values_are_dropped_and_remain_usable() {
        let cache = StudyCache::default();
        let (used, unused): (StudyId, StudyId) = ("p/l/a".parse().unwrap(), "p/l/b".parse().unwrap());
        let held = cache.get_or_insert(&unused, 0, || Mutex::new(1));
        *held.lock() += 1;
        for _ in 0..2 {
            cache.get_or_insert(&used, 0, || Mutex::new(7));
            assert_eq!(cache.drop_idle(2), 0);
        }
        cache.get_or_insert(&used, 0, || Mutex::new(8));
        assert_eq!(cache.drop_idle(2), 1);
        assert_eq!(*held.lock(), 2);
        assert_eq!(*cache.get_or_insert(&unused, 0, || Mutex::new(5)).lock(), 5);
        assert_eq!(*cache.get_or_insert(&used, 0, || Mutex::new(9)).lock(), 7);
        assert!(!cache.drop_unused());
        cache.drop_idle(2);
        cache.get_or_insert(&used, 0, || Mutex::new(9));
        assert!(cache.drop_unused() && !cache.drop_unused());
    }
}
