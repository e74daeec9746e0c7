//! The box around the incumbent in which the next trial is sought.
//!
//! Source: Eriksson et al. 2019, "Scalable Global Optimization via Local Bayesian Optimization" (TuRBO),
//! arXiv 1910.01739, with other constants, measured on our development problems: sides scale with `sqrt(2/d)`, the box
//! halves sooner (`max(2, d/4)` failures instead of `max(4, d)`), any improvement is a success, length-scale ratios are
//! bounded, and a box that became too small opens again around the same incumbent.
//!
//! Trials that run at once are proposed from one box and know nothing of each other: as in TuRBO, so many results in a
//! row count as one, a success if one of them improved. One by one they would shrink the box again and again before the
//! search has seen its first answer. Measured on 12 bbob functions in 5 dimensions, 3 instances, mean log10 gap after
//! 32, 64 and 128 trials: batches of 8 -0.25 +- 0.10, -0.25 +- 0.10, -0.12 +- 0.18; 8 asynchronous workers
//! -0.38 +- 0.18, -0.21 +- 0.08, -0.01 +- 0.09.
//!
//! The state is a function of the sequence of results, so it is computed anew each time and never stored.

/// Initial length, and after a restart.
const START: f64 = 0.8;
const LARGEST: f64 = 1.6;
/// `2^-7`.
const SMALLEST: f64 = 0.007_812_5;
const SUCCESSES_TO_GROW: usize = 3;
/// `ln` of the largest ratio of a length scale to the geometric mean that shapes the box.
const LARGEST_LOG_RATIO: f64 = 1.5;

/// One completed trial, as the box sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialResult {
    /// Its value, larger is better; `None` if it failed or was stopped early.
    pub value: Option<f64>,
    /// Whether it was proposed from the box. Others move the incumbent but are neither success nor failure.
    pub local: bool,
}

/// The length `L` of the box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrustRegion {
    /// `L`, from `2^-7` to 1.6.
    pub length: f64,
    /// How often it became too small and opened again: around its incumbent little is left to be found.
    pub restarts: usize,
}

impl TrustRegion {
    /// A box of length 1, for the shape of its [sides](Self::sides).
    pub const UNIT: Self = Self { length: 1.0, restarts: 0 };

    /// The state after `results`, in the order of the trials, in a space of `dimensions` features, where `parallel` (at
    /// least 1) trials run at once.
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

    /// Side of the box along each feature: `L sqrt(2/d) l_j / geomean(l)`, the ratio within `e^-1.5` and `e^1.5`.
    /// `ordered` tells which features count for the geometric mean; categories are never cut.
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
    fn scripted_sequences_reach_the_lengths_of_the_rules() {
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
    fn results_of_trials_that_run_at_once_count_together() {
        for (dimensions, parallel, script, expected) in [
            // One improvement makes a success of all four; three such let the box grow.
            (2, 4, "g-+--", 0.8),
            (2, 4, "g-+--+-----+-", 1.6),
            (2, 4, "g-+--+-----+", 0.8),
            // Four failures are more than the two it takes one by one, and shrink the box once.
            (2, 4, "g---", 0.8),
            (2, 4, "g----", 0.4),
            (2, 4, "g--g--", 0.4),
            (2, 4, "g--------", 0.2),
            // Five failures in 20 dimensions are three pairs.
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
