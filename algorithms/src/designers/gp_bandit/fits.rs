//! When hyperparameters are fitted, and memory for the results.
//!
//! A full fit is dear, and one more trial moves its result little. So full fits are made at checkpoints, after 10, 20,
//! 40, 80 ... completed trials (and at each trial before the tenth); in between, a few steps from the last
//! checkpoint's result do: at every trial up to 64, at every other up to 200, then after 2% more trials, at least 8. That
//! departs from a chain of corrections, each from the one before, in that any result can be computed from the history in
//! two steps.
//!
//! Which fits count is a pure function of the number of completed trials, and each fit one of the first so many by
//! number: a designer built anew answers as one that has seen the whole study. What is remembered is only what would be
//! computed again, found by a fingerprint of the trials that went in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::gp::Hyperparameters;

/// The first checkpoint; each next one comes at twice as many trials.
const FIRST_CHECKPOINT: usize = 10;
/// Up to this many completed trials each brings a refit.
const REFIT_EACH_UP_TO: usize = 64;
/// Then every other does, up to this many, to save time. On bbob in 5 and 10 dimensions that is rather better than worse:
/// mean log10 gap after 100 evaluations -0.02 +- 0.01; of 192 pairs of runs 93 are better and 56 worse. A refit at every
/// fifth trial from the start cost quality.
const REFIT_OTHERS_UP_TO: usize = 200;
/// Beyond: new trials between refits, at least, and as a share of the trials there are.
const FEWEST_BETWEEN: usize = 8;
const SHARE_BETWEEN: usize = 50;
/// Results that are remembered: those of one history are two for each output and for failures; one of the two changes
/// rarely. The one that was not asked for longest is forgotten first.
const REMEMBERED: usize = 64;

/// Which fits decide after some number of completed trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The first so many trials are fitted from the default starts.
    pub(super) checkpoint: usize,
    /// If more than `checkpoint`: the first so many trials correct that fit.
    pub(super) refit: usize,
}

impl Schedule {
    pub(super) fn after(completed: usize) -> Self {
        let mut checkpoint = FIRST_CHECKPOINT;
        while 2 * checkpoint <= completed {
            checkpoint *= 2;
        }
        let mut refit = completed.min(REFIT_EACH_UP_TO);
        while refit + between(refit) <= completed {
            refit += between(refit);
        }
        Self { checkpoint: checkpoint.min(completed), refit }
    }
}

fn between(trials: usize) -> usize {
    match trials {
        _ if trials < REFIT_EACH_UP_TO => 1,
        _ if trials < REFIT_OTHERS_UP_TO => 2,
        _ => FEWEST_BETWEEN.max(trials / SHARE_BETWEEN),
    }
}

/// Identifies what a fit was made of.
pub(super) type Fingerprint = [u8; 32];

/// The memory of one designer; its clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Fits(Arc<Mutex<VecDeque<(Fingerprint, Hyperparameters)>>>);

impl Fits {
    /// The result for `fingerprint`, remembered or computed now.
    pub(super) fn remembered(
        &self,
        fingerprint: Fingerprint,
        compute: impl FnOnce() -> Hyperparameters,
    ) -> Hyperparameters {
        // Whatever happened to another holder, entries are whole.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = lock();
        if let Some(place) = results.iter().position(|(known, _)| *known == fingerprint)
            && let Some(entry) = results.remove(place)
        {
            let result = entry.1.clone();
            results.push_back(entry);
            return result;
        }
        drop(results);
        // Not under the lock: two callers may compute the same, and get the same.
        let result = compute();
        let mut results = lock();
        if results.len() == REMEMBERED {
            results.pop_front();
        }
        results.push_back((fingerprint, result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_come_at_the_numbers_of_the_rules() {
        let schedule = |n| {
            let Schedule { checkpoint, refit } = Schedule::after(n);
            (checkpoint, refit)
        };
        assert_eq!([4, 9, 10, 19, 20].map(schedule), [(4, 4), (9, 9), (10, 10), (10, 19), (20, 20)]);
        assert_eq!([63, 64, 65, 66, 199].map(schedule), [(40, 63), (40, 64), (40, 64), (40, 66), (160, 198)]);
        assert_eq!(
            [200, 207, 208, 319, 320].map(schedule),
            [(160, 200), (160, 200), (160, 208), (160, 312), (320, 320)]
        );
        assert_eq!(schedule(1000).0, 640);
        let refits: Vec<usize> = (1000..1100).map(|n| schedule(n).1).collect();
        assert!(refits.iter().zip(1000..).all(|(refit, n)| n - refit < 22 && *refit <= n));
        assert!(refits.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 5);
    }

    #[test]
    fn a_result_is_computed_once_and_forgotten_in_turn() {
        let fits = Fits::default();
        let result = |scale: f64| {
            let mut result = Hyperparameters::default_for(&[false]);
            result.noise_variance = scale;
            result
        };
        for number in 0..REMEMBERED as u8 {
            fits.remembered([number; 32], || result(f64::from(number)));
        }
        assert_eq!(fits.remembered([0; 32], || result(9.0)), result(0.0));
        assert_eq!(fits.clone().remembered([99; 32], || result(99.0)), result(99.0));
        // Asked for again, the first outlives the second.
        assert_eq!(fits.remembered([0; 32], || result(9.0)), result(0.0));
        assert_eq!(fits.remembered([1; 32], || result(9.0)), result(9.0));
        assert_eq!(fits.0.lock().unwrap().len(), REMEMBERED);
    }
}
