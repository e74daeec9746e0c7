//! What is remembered of studies: no more than a budget, the latest used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::history::StudyHistory;
use tunesmith_domain::StudyId;

type Shared = Arc<tokio::sync::Mutex<StudyHistory>>;

/// Histories by study.
pub(super) struct Remembered {
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

impl Remembered {
    /// Remembers what fits in `memory` bytes, and always the study that was used last.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, histories: Mutex::default() }
    }

    /// The history of `study`, if it is remembered. It counts as used.
    pub(super) fn get(&self, study: &StudyId) -> Option<Shared> {
        let mut histories = self.lock();
        histories.now += 1;
        let now = histories.now;
        let entry = histories.by_study.get_mut(study)?;
        entry.used = now;
        Some(Arc::clone(&entry.history))
    }

    /// The history of `study`; `fresh` if there was none.
    pub(super) fn get_or_insert(&self, study: &StudyId, fresh: StudyHistory) -> Shared {
        let mut histories = self.lock();
        histories.now += 1;
        let used = histories.now;
        let bytes = fresh.bytes();
        let new = || Entry { history: Arc::new(tokio::sync::Mutex::new(fresh)), used, bytes };
        Arc::clone(&histories.by_study.entry(study.clone()).or_insert_with(new).history)
    }

    /// Notes that the history of `study` takes `bytes`, and forgets those that were not used for the longest time if all
    /// take too much. Whoever holds one that is forgotten can go on with it.
    pub(super) fn weigh(&self, study: &StudyId, bytes: usize) {
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

    /// Forgets the history of `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.lock().by_study.remove(study);
    }

    fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
