//! Schedule of hyperparameter fits, and cache of their results.
//!
//! A full fit is expensive, and one more trial changes its result little. So full fits run at checkpoints, after 10,
//! 20, 40, 80 ... completed trials (and after each trial before the tenth). In between, a few steps from the last
//! checkpoint's result suffice: after every trial up to 64, after every other up to 200, then after 2% more trials, at
//! least 8. Unlike in a chain of corrections, any result can be computed from the history in two steps.
//!
//! The fits in use are a pure function of the number of completed trials, and each fit uses a prefix of the trials by
//! number. A rebuilt designer therefore returns the same suggestions as one that has seen the whole study. The cache
//! holds only results that a recomputation would reproduce identically, keyed by a fingerprint of their trials.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::gp::Hyperparameters;
use crate::interruption::Interruption;

/// First checkpoint; each further one is at twice as many trials.
const FIRST_CHECKPOINT: usize = 10;
/// Number of completed trials up to which every trial causes a refit.
const REFIT_EACH_UP_TO: usize = 64;
/// Number of completed trials up to which every other trial causes a refit (measured, see docs/experiments/006).
const REFIT_OTHERS_UP_TO: usize = 200;
/// Minimum number of trials between later refits, and the divisor of the number of trials that gives it.
const FEWEST_BETWEEN: usize = 8;
const SHARE_BETWEEN: usize = 50;
/// Number of cached results, evicted least recently used first. A history uses two for each output and for failures.
const REMEMBERED: usize = 64;

/// Fits in use after some number of completed trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Number of first trials fitted from the default starts.
    pub(super) checkpoint: usize,
    /// Number of first trials that correct that fit, if larger than `checkpoint`.
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

/// Identifies the inputs of a fit.
pub(super) type Fingerprint = [u8; 32];

/// Cache shared by a designer and its clones.
#[derive(Debug, Clone, Default)]
pub(super) struct Fits {
    results: Arc<Mutex<VecDeque<(Fingerprint, Hyperparameters)>>>,
    interruption: Interruption,
}

impl Fits {
    /// The same cache for a request that ends at `interruption`.
    pub(super) fn until(&self, interruption: &Interruption) -> Self {
        Self { results: Arc::clone(&self.results), interruption: interruption.clone() }
    }

    pub(super) fn are_interrupted(&self) -> bool {
        self.interruption.is_requested()
    }

    /// Cached result for `fingerprint`, or the result of `compute`.
    pub(super) fn remembered(
        &self,
        fingerprint: Fingerprint,
        compute: impl FnOnce() -> Hyperparameters,
    ) -> Hyperparameters {
        let lock = || self.results.lock();
        let mut results = lock();
        if let Some(place) = results.iter().position(|(known, _)| *known == fingerprint)
            && let Some(entry) = results.remove(place)
        {
            let result = entry.1.clone();
            results.push_back(entry);
            return result;
        }
        drop(results);
        // Computed without the lock: concurrent callers compute the same result.
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
    fn schedule_follows_the_documented_rules() {
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
    fn results_are_computed_once_and_dropped_least_recently_used_first() {
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
        // The first result was used again, so the second is evicted first.
        assert_eq!(fits.remembered([0; 32], || result(9.0)), result(0.0));
        assert_eq!(fits.remembered([1; 32], || result(9.0)), result(9.0));
        assert_eq!(fits.results.lock().len(), REMEMBERED);
    }
}
