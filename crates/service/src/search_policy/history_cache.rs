//! A cache of histories with a memory limit; the least recently used ones are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::history::StudyHistory;
use tunesmith_domain::StudyId;

type Shared = Arc<tokio::sync::Mutex<StudyHistory>>;

/// The cached histories by study.
pub(super) struct HistoryCache {
    memory: usize,
    histories: Mutex<Histories>,
}

#[derive(Default)]
struct Histories {
    by_study: HashMap<StudyId, Entry>,
    /// Counts uses.
    now: u64,
}

struct Entry {
    history: Shared,
    used: u64,
    bytes: usize,
    /// Number of [`HistoryCache::drop_idle`] since the last use.
    idle: u32,
}

impl HistoryCache {
    /// A cache of `memory` bytes, which always keeps the history that was used last.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, histories: Mutex::default() }
    }

    /// The cached history of `study`. Counts as a use.
    pub(super) fn get(&self, study: &StudyId) -> Option<Shared> {
        let mut histories = self.lock();
        histories.now += 1;
        let now = histories.now;
        let entry = histories.by_study.get_mut(study)?;
        entry.used = now;
        entry.idle = 0;
        Some(Arc::clone(&entry.history))
    }

    /// The cached history of `study`; inserts `fresh` if there is none.
    pub(super) fn get_or_insert(&self, study: &StudyId, fresh: StudyHistory) -> Shared {
        let mut histories = self.lock();
        histories.now += 1;
        let used = histories.now;
        let bytes = fresh.bytes();
        let new = || Entry { history: Arc::new(tokio::sync::Mutex::new(fresh)), used, bytes, idle: 0 };
        Arc::clone(&histories.by_study.entry(study.clone()).or_insert_with(new).history)
    }

    /// Sets the size of the history of `study`, and removes the least recently used histories if the memory limit is
    /// exceeded. Returns the removed ones: to drop a long history takes a while. They remain usable for their holders.
    #[must_use]
    pub(super) fn set_size(&self, study: &StudyId, bytes: usize) -> Vec<Shared> {
        let mut histories = self.lock();
        if let Some(entry) = histories.by_study.get_mut(study) {
            entry.bytes = bytes;
        }
        let mut removed = Vec::new();
        while histories.by_study.values().map(|entry| entry.bytes).sum::<usize>() > self.memory {
            let Some(oldest) = histories.remove_oldest(Some(study)) else { break };
            removed.push(oldest.history);
        }
        removed
    }

    /// Drops the least recently used history; returns whether there was one.
    pub(super) fn drop_oldest(&self) -> bool {
        // Dropped after the lock is released: a long history takes a while.
        let dropped = self.lock().remove_oldest(None);
        dropped.is_some()
    }

    /// Drops the histories that were not used during the last `calls` calls of this function, and returns their number.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        let mut dropped = Vec::new();
        let mut histories = self.lock();
        let by_study = std::mem::take(&mut histories.by_study);
        for (study, mut entry) in by_study {
            entry.idle = entry.idle.saturating_add(1);
            if entry.idle <= calls {
                histories.by_study.insert(study, entry);
            } else {
                dropped.push(entry);
            }
        }
        drop(histories);
        dropped.len()
    }

    /// Drops the history of `study`.
    pub(super) fn remove(&self, study: &StudyId) {
        self.lock().by_study.remove(study);
    }

    fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histories {
    /// Removes the least recently used history, except that of the study `except`.
    fn remove_oldest(&mut self, except: Option<&StudyId>) -> Option<Entry> {
        let others = self.by_study.iter().filter(|(id, _)| Some(*id) != except);
        let oldest = others.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())?;
        self.by_study.remove(&oldest)
    }
}
