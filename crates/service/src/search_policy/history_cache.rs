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
        Some(Arc::clone(&entry.history))
    }

    /// The cached history of `study`; inserts `fresh` if there is none.
    pub(super) fn get_or_insert(&self, study: &StudyId, fresh: StudyHistory) -> Shared {
        let mut histories = self.lock();
        histories.now += 1;
        let used = histories.now;
        let bytes = fresh.bytes();
        let new = || Entry { history: Arc::new(tokio::sync::Mutex::new(fresh)), used, bytes };
        Arc::clone(&histories.by_study.entry(study.clone()).or_insert_with(new).history)
    }

    /// Sets the size of the history of `study`, and drops the least recently used histories if the memory limit is
    /// exceeded. A dropped history remains usable for its holders.
    pub(super) fn set_size(&self, study: &StudyId, bytes: usize) {
        let mut histories = self.lock();
        if let Some(entry) = histories.by_study.get_mut(study) {
            entry.bytes = bytes;
        }
        while histories.by_study.values().map(|entry| entry.bytes).sum::<usize>() > self.memory {
            let others = histories.by_study.iter().filter(|(id, _)| *id != study);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone()) else { return };
            histories.by_study.remove(&oldest);
        }
    }

    /// Drops the history of `study`.
    pub(super) fn remove(&self, study: &StudyId) {
        self.lock().by_study.remove(study);
    }

    fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
