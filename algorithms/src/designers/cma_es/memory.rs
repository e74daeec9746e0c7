//! Memory for replays of a history.
//!
//! A replay takes time proportional to the number of trials. Between two requests a history usually grows by a few trials, so
//! the replay continues from the latest remembered state whose trials are the first ones of the history. The result is that of
//! a replay from the start, to the bit; losing the memory costs time only.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::replay::{Completed, Replay};

/// Number of remembered states, each one generation later than the one before. A trial that completes later than those of
/// so many generations after it causes a replay from the start (a guess).
const REMEMBERED: usize = 4;

/// A state and the trials that led to it.
#[derive(Debug, Clone)]
struct Entry {
    replay: Replay,
    /// Of the first trials of the history, as many as the replay used.
    fingerprint: [u8; 32],
}

/// The memory of one designer and its clones.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<Entry>>>);

impl Memory {
    /// The replay of the generations of `completed`, from the latest remembered state that applies or else from `start`.
    ///
    /// `next` adds the next generation to a replay; `None` if too few trials are left.
    pub(super) fn continued(
        &self,
        completed: &[Completed],
        start: impl FnOnce() -> Replay,
        mut next: impl FnMut(&Replay) -> Option<Replay>,
    ) -> Replay {
        // Entries are complete even if another holder of the lock panicked.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = lock().clone();
        let mut hash = Sha256::new();
        let mut path: Vec<Entry> = Vec::new();
        for entry in remembered {
            let hashed = path.last().map_or(0, |last| last.replay.trials);
            let Some(trials) = completed.get(hashed..entry.replay.trials) else { break };
            let mut longer = hash.clone();
            trials.iter().for_each(|trial| add(&mut longer, trial));
            if fingerprint(&longer) != entry.fingerprint {
                break;
            }
            hash = longer;
            path.push(entry);
        }
        let mut replay = path.last().map_or_else(start, |last| last.replay.clone());
        while let Some(longer) = next(&replay) {
            completed[replay.trials..longer.trials].iter().for_each(|trial| add(&mut hash, trial));
            if path.len() == REMEMBERED {
                path.remove(0);
            }
            path.push(Entry { replay: longer.clone(), fingerprint: fingerprint(&hash) });
            replay = longer;
        }
        *lock() = path;
        replay
    }
}

fn add(hash: &mut Sha256, trial: &Completed) {
    hash.update(trial.id.0.to_le_bytes());
    hash.update(trial.value.to_bits().to_le_bytes());
    for u in &trial.point {
        hash.update(u.to_bits().to_le_bytes());
    }
}

fn fingerprint(hash: &Sha256) -> [u8; 32] {
    hash.clone().finalize().into()
}
