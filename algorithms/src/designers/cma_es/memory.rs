//! Cache of replays of a history.
//!
//! A replay takes time proportional to the number of trials. Between two requests a history usually grows by a few
//! trials, so the replay resumes from the latest cached state whose trials are a prefix of the history. The result
//! equals a full replay to the bit; losing the cache costs only time.

use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::replay::{Completed, Replay};

/// Number of cached states, one per generation. A trial that completes later than this many generations after its own
/// causes a full replay (a guess).
const REMEMBERED: usize = 4;

/// A state and the trials behind it.
#[derive(Debug, Clone)]
struct Entry {
    replay: Replay,
    /// Covers the prefix of the history used by the replay.
    fingerprint: [u8; 32],
}

/// Cache shared by a designer and its clones.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<Entry>>>);

impl Memory {
    /// Replays the generations of `completed` from the latest applicable cached state, or else from `start`.
    ///
    /// `next` adds the next generation to a replay; `None` if too few trials are left.
    pub(super) fn continued(
        &self,
        completed: &[Completed],
        start: impl FnOnce() -> Replay,
        mut next: impl FnMut(&Replay) -> Option<Replay>,
    ) -> Replay {
        let lock = || self.0.lock();
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
