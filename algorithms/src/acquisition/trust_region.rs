//! Trust region: a box around the incumbent that confines the search for the next trial.
//!
//! Source: Eriksson et al. 2019, "Scalable Global Optimization via Local Bayesian Optimization" (TuRBO), arXiv
//! 1910.01739, with other constants, measured on our development problems: sides scale with `sqrt(2/d)`, the box halves
//! sooner (after `max(2, d/4)` failures instead of `max(4, d)`), any improvement is a success, length-scale ratios are
//! bounded, and a box that became too small reopens around the same incumbent.
//!
//! Parallel trials are proposed from one box without each other's outcomes. As in TuRBO, that many consecutive results
//! count as one, a success if one of them improved. Counted separately, they would shrink the box before the search has
//! seen the first outcome (measured, see docs/experiments/002).
//!
//! The state is a function of the sequence of results, recomputed for each request and never stored.

/// Initial length, and after a restart.
const START: f64 = 0.8;
const LARGEST: f64 = 1.6;
/// `2^-7`.
const SMALLEST: f64 = 0.007_812_5;
const SUCCESSES_TO_GROW: usize = 3;
/// `ln` of the largest ratio of a length scale to the geometric mean that shapes the box.
const LARGEST_LOG_RATIO: f64 = 1.5;

/// Completed trial, reduced to the inputs of the trust region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialResult {
    /// Larger is better; `None` if it failed or was stopped early.
    pub value: Option<f64>,
    /// Whether it was proposed from the box. Other trials move the incumbent but count neither as success nor as
    /// failure.
    pub local: bool,
}

/// Length `L` of the box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrustRegion {
    /// `L`, from `2^-7` to 1.6.
    pub length: f64,
    /// Number of times the box became too small and reopened, which indicates little improvement left around the
    /// incumbent.
    pub restarts: usize,
}

impl TrustRegion {
    /// Box of length 1, for the shape of the [sides](Self::sides).
    pub const UNIT: Self = Self { length: 1.0, restarts: 0 };

    /// State after `results`, in trial order, in a space of `dimensions` features, with `parallel` (at least 1)
    /// concurrent trials.
    pub fn replay(dimensions: usize, parallel: usize, results: impl IntoIterator<Item = TrialResult>) -> Self {
        let failures_to_shrink = (dimensions / 4).max(2).div_ceil(parallel);
        let (mut together, mut one_improved) = (0, false);
        let (mut length, mut successes, mut failures, mut restarts) = (START, 0, 0, 0);
        let mut best = f64::NEG_INFINITY;
        for result in results {
            let improved = result.value.is_some_and(|value| value > best);
            best = best.max(result.value.unwrap_or(best));
            if !result.local {
                continue;
            }
            (together, one_improved) = (together + 1, one_improved || improved);
            if together < parallel {
                continue;
            }
            let improved = std::mem::take(&mut one_improved);
            together = 0;
            (successes, failures) = if improved { (successes + 1, 0) } else { (0, failures + 1) };
            if successes == SUCCESSES_TO_GROW {
                (length, successes) = ((2.0 * length).min(LARGEST), 0);
            }
            if failures == failures_to_shrink {
                (length, failures) = (0.5 * length, 0);
                if length < SMALLEST {
                    length = START;
                    restarts += 1;
                }
            }
        }
        Self { length, restarts }
    }

    /// Side of the box along each feature: `L sqrt(2/d) l_j / geomean(l)`, the ratio between `e^-1.5` and `e^1.5`.
    /// `ordered` marks the features in the geometric mean; categories are never restricted.
    pub fn sides(&self, lengthscales: &[f64], ordered: &[bool]) -> Vec<f64> {
        let logs = || lengthscales.iter().zip(ordered).filter(|(_, ordered)| **ordered).map(|(l, _)| l.ln());
        let mean = logs().sum::<f64>() / logs().count().max(1) as f64;
        let scale = self.length * (2.0 / lengthscales.len() as f64).sqrt();
        let ratio = |l: &f64| (l.ln() - mean).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp();
        lengthscales.iter().map(|l| scale * ratio(l)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(dimensions: usize, script: &str) -> TrustRegion {
        replay_parallel(dimensions, 1, script)
    }

    fn replay_parallel(dimensions: usize, parallel: usize, script: &str) -> TrustRegion {
        let mut best = 0.0;
        let result = |step: char| {
            best += if step == '+' || step == 'g' { 1.0 } else { 0.0 };
            let value = if step == 'x' { None } else { Some(best) };
            TrialResult { value, local: step != 'g' && step != 's' }
        };
        TrustRegion::replay(dimensions, parallel, script.chars().map(result))
    }

    /// `+` an improvement, `-` none, `x` a failure, `g` a global improvement, `s` a start trial without improvement.
    #[test]
    fn length_follows_the_sequence_of_results() {
        for (dimensions, script, expected) in [
            (2, "", 0.8),
            (2, "ssgg", 0.8),
            (2, "g++", 0.8),
            (2, "g+++", 1.6),
            (2, "g++++++", 1.6),
            (2, "g++-+++", 1.6),
            (2, "g-+-", 0.8),
            (2, "g--", 0.4),
            (2, "g-x", 0.4),
            (2, "g-g-", 0.4),
            (2, "g----", 0.2),
            (12, "g--", 0.8),
            (12, "g---", 0.4),
            (2, "g------------", 0.0125),
            (2, "g--------------", 0.8),
        ] {
            assert_eq!(replay(dimensions, script).length, expected, "{dimensions} {script}");
        }
        assert_eq!(replay(2, "g------------").restarts, 0);
        assert_eq!(replay(2, "g----------------").restarts, 1);
    }

    #[test]
    fn results_of_parallel_trials_count_as_one() {
        for (dimensions, parallel, script, expected) in [
            // One improvement makes the group of four a success; three successes double the box.
            (2, 4, "g-+--", 0.8),
            (2, 4, "g-+--+-----+-", 1.6),
            (2, 4, "g-+--+-----+", 0.8),
            // Sequentially two failures shrink the box; in parallel one group of four does.
            (2, 4, "g---", 0.8),
            (2, 4, "g----", 0.4),
            (2, 4, "g--g--", 0.4),
            (2, 4, "g--------", 0.2),
            // In 20 dimensions five failures shrink the box: three pairs.
            (20, 2, "g-----", 0.8),
            (20, 2, "g------", 0.4),
        ] {
            assert_eq!(replay_parallel(dimensions, parallel, script).length, expected, "{dimensions} {script}");
        }
    }

    #[test]
    fn sides_follow_bounded_lengthscale_ratios() {
        let region = TrustRegion { length: 0.8, ..TrustRegion::UNIT };
        assert_eq!(region.sides(&[0.3, 0.3], &[true, true]), [0.8, 0.8]);
        let sides = region.sides(&[1e-3, 1e3, 7.0], &[true, true, false]);
        let unit = 0.8 * (2.0_f64 / 3.0).sqrt();
        assert!((sides[0] - unit * (-1.5_f64).exp()).abs() < 1e-12 && (sides[1] - unit * 1.5_f64.exp()).abs() < 1e-12);
    }
}
