//! Value of a point given the posterior there.
//!
//! Notation: `S` fantasy samples (1 without pending trials), `mu_s` posterior mean in sample `s`, `s` the posterior
//! standard deviation, equal in all samples, `f*_s` the threshold. Values of the objective are maximised.
//!
//! | criterion | value over all samples |
//! |---|---|
//! | expected improvement | `logsumexp_s logEI(mu_s, s, f*_s) - ln S`, the log of the mean expected improvement |
//! | upper confidence bound | `mean_s mu_s + beta s` |
//! | mean | `mean_s mu_s` |
//!
//! Sources: expected improvement as in [`super::log_expected_improvement`]; the bound from Srinivas et al. 2010,
//! "Gaussian Process Optimization in the Bandit Setting", arXiv 0912.3995, with a constant `beta` in place of its
//! square root; with pending trials it is that of Desautels et al. 2014, JMLR 15 (GP-BUCB), where only the deviation
//! depends on them. De Ath et al. 2021, "Greed is Good", arXiv 1911.12809, discuss maximisation of the mean alone.

use super::log_expected_improvement::log_expected_improvement;
use super::pooled::{pooled, pooled_with_derivatives};

/// Weight of the deviation in OSS Vizier (`vizier/_src/algorithms/designers/gp/acquisitions.py`).
pub const DEFAULT_BETA: f64 = 1.8;

/// Criterion for the value of a point.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Criterion {
    /// Logarithm of expected improvement over the threshold.
    #[default]
    ExpectedImprovement,
    /// Posterior mean plus `beta` standard deviations, independent of the threshold.
    UpperConfidenceBound {
        /// Number of deviations, finite, above 0; larger values explore more. [`DEFAULT_BETA`] by default.
        beta: f64,
    },
    /// Posterior mean alone, without exploration and independent of the threshold. Pending trials matter only through
    /// the sampling error of their fantasies, so the points of a batch lie close together.
    Mean,
}

impl Criterion {
    /// Value over all samples, from `mu_s` and `f*_s` (length S both) and `s > 0`.
    pub(super) fn value(&self, means: &[f64], deviation: f64, thresholds: &[f64]) -> f64 {
        match self {
            Self::ExpectedImprovement => match (means, thresholds) {
                ([mean], [threshold]) => log_expected_improvement(*mean, deviation, *threshold).value,
                _ => pooled(means, deviation, thresholds),
            },
            Self::UpperConfidenceBound { beta } => average(means) + beta * deviation,
            Self::Mean => average(means),
        }
    }

    /// [`Self::value`] with its derivative by `s`; writes those by `mu_s` to `by_means` (length S).
    pub(super) fn value_and_derivatives(
        &self,
        means: &[f64],
        deviation: f64,
        thresholds: &[f64],
        by_means: &mut [f64],
    ) -> (f64, f64) {
        let by_deviation = match self {
            Self::ExpectedImprovement => {
                let ([mean], [threshold]) = (means, thresholds) else {
                    return pooled_with_derivatives(means, deviation, thresholds, by_means);
                };
                let alone = log_expected_improvement(*mean, deviation, *threshold);
                by_means.fill(alone.by_mean);
                return (alone.value, alone.by_deviation);
            }
            Self::UpperConfidenceBound { beta } => *beta,
            Self::Mean => 0.0,
        };
        by_means.fill(1.0 / means.len() as f64);
        (self.value(means, deviation, thresholds), by_deviation)
    }
}

fn average(means: &[f64]) -> f64 {
    means.iter().sum::<f64>() / means.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANS: [f64; 3] = [0.5, -0.25, 1.25];

    #[test]
    fn bound_and_mean_match_hand_calculation() {
        let bound = Criterion::UpperConfidenceBound { beta: 3.0 };
        let mut by_means = [f64::NAN; 3];
        assert_eq!(bound.value(&MEANS, 0.25, &[9.0; 3]), 0.5 + 0.75);
        assert_eq!(bound.value_and_derivatives(&MEANS, 0.25, &[9.0; 3], &mut by_means), (1.25, 3.0));
        assert_eq!(by_means, [1.0 / 3.0; 3]);
        assert_eq!(Criterion::Mean.value(&MEANS, 0.25, &[9.0; 3]), 0.5);
        assert_eq!(Criterion::Mean.value_and_derivatives(&MEANS, 0.25, &[9.0; 3], &mut by_means), (0.5, 0.0));
        assert_eq!(by_means, [1.0 / 3.0; 3]);
    }

    #[test]
    fn expected_improvement_is_averaged_before_the_logarithm() {
        let alone = |mean| log_expected_improvement(mean, 0.25, 1.0).value.exp();
        let expected = (MEANS.map(alone).iter().sum::<f64>() / 3.0).ln();
        let actual = Criterion::ExpectedImprovement.value(&MEANS, 0.25, &[1.0; 3]);
        assert!((actual - expected).abs() < 1e-12, "{actual} {expected}");
    }
}
