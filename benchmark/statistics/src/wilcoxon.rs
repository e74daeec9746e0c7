//! The paired signed-rank test of Wilcoxon, two-sided.
//!
//! Source: Wilcoxon, "Individual comparisons by ranking methods", 1945. Differences of 0 are dropped before ranking.
//! Statistic and p value are those of `scipy.stats.wilcoxon(zero_method="wilcox", correction=True)`: the normal
//! approximation has a continuity correction of half a rank, which is closer to the exact p value; the default of scipy
//! has none.

use tunesmith_algorithms::numerics::normal::distribution;

use super::StatisticsError;
use super::error::{require_count, require_finite};
use super::ranks::{ranks_and_ties, tie_sum};

/// Largest sample with an exact p value; as in scipy.
pub const EXACT_LIMIT: usize = 50;

/// Largest sample with an exact p value in the presence of ties or zeros; as in scipy, which enumerates all signs.
pub const EXACT_TIES_LIMIT: usize = 13;

#[derive(Debug, Clone, PartialEq)]
pub struct WilcoxonTest {
    /// Smaller of the rank sums of positive and negative differences.
    pub statistic: f64,
    /// Two-sided p value; 1 if all differences are 0.
    pub p: f64,
    pub exact: bool,
    /// Matched-pairs rank-biserial correlation: the positive rank sum minus the negative one over their total, from −1
    /// (all differences negative) to 1; 0 if all are 0. Source: Kerby, "The simple difference formula", 2014.
    pub rank_biserial: f64,
}

/// Tests with signed ranks that `differences` are symmetric around 0.
///
/// The p value is exact up to [`EXACT_LIMIT`] differences without ties or zeros, and up to [`EXACT_TIES_LIMIT`] with
/// them, from the distribution over all signs of the ranks. For more it is the normal approximation with the variance
/// corrected for ties.
///
/// # Errors
/// [`StatisticsError::TooFew`] without differences, [`StatisticsError::NotANumber`] if one is not finite.
pub fn wilcoxon(differences: &[f64]) -> Result<WilcoxonTest, StatisticsError> {
    require_count("differences", differences.len(), 1)?;
    require_finite("differences", differences)?;
    let kept: Vec<f64> = differences.iter().copied().filter(|&difference| difference != 0.0).collect();
    if kept.is_empty() {
        return Ok(WilcoxonTest { statistic: 0.0, p: 1.0, exact: true, rank_biserial: 0.0 });
    }
    let sizes: Vec<f64> = kept.iter().map(|difference| difference.abs()).collect();
    let (ranks, sizes_of_ties) = ranks_and_ties(&sizes)?;
    let ties = tie_sum(&sizes_of_ties);
    let sum_of_sign = |sign: f64| -> f64 {
        let matching = kept.iter().zip(&ranks).filter(|(difference, _)| **difference * sign > 0.0);
        matching.map(|(_, &rank)| rank).sum()
    };
    let (positive, negative) = (sum_of_sign(1.0), sum_of_sign(-1.0));
    let statistic = positive.min(negative);
    let has_ties_or_zeros = ties > 0.0 || kept.len() < differences.len();
    let exact = differences.len() <= if has_ties_or_zeros { EXACT_TIES_LIMIT } else { EXACT_LIMIT };
    let p = if exact {
        (2.0 * probability_of_at_most(statistic, &ranks)).min(1.0)
    } else {
        normal_p(positive, kept.len(), ties)
    };
    Ok(WilcoxonTest { statistic, p, exact, rank_biserial: (positive - negative) / (positive + negative) })
}

/// Two-sided p value from the normal distribution of the rank sum `positive` of `count` ranks; `ties` is the sum of t³
/// − t over groups of ties.
fn normal_p(positive: f64, count: usize, ties: f64) -> f64 {
    let n = count as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = ((n * (n + 1.0) * (2.0 * n + 1.0) - ties / 2.0) / 24.0).sqrt();
    let distance = (positive - mean).abs();
    let shift = if distance == 0.0 { 0.0 } else { 0.5 };
    // Within half a rank of the mean, scipy's correction overshoots 0. The p value is that of the overshoot, not 1.
    (2.0 * distribution(-((distance - shift) / deviation).abs())).min(1.0)
}

/// Probability that the sum of `ranks`, each included with probability one half, is at most `bound`.
fn probability_of_at_most(bound: f64, ranks: &[f64]) -> f64 {
    // Twice a midrank is a whole number.
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect();
    let last = (2.0 * bound).round().max(0.0) as usize;
    sum_distribution(&doubled).iter().take(last + 1).sum()
}

/// Probability of each sum of `terms`, each included with probability one half; the index is the sum.
///
/// Shift algorithm of Streitberg and Röhmel, "Exact distributions for permutation and rank tests", 1986.
fn sum_distribution(terms: &[usize]) -> Vec<f64> {
    let mut probabilities = vec![0.0; terms.iter().sum::<usize>() + 1];
    probabilities[0] = 1.0;
    for &term in terms {
        for sum in (0..probabilities.len()).rev() {
            let taken = if sum >= term { probabilities[sum - term] } else { 0.0 };
            probabilities[sum] = 0.5 * (probabilities[sum] + taken);
        }
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_signs_give_the_smallest_exact_p_and_the_full_effect() {
        let test = wilcoxon(&[-1.0, -2.0, -3.0, -4.0, -5.0]).unwrap();
        assert_eq!((test.statistic, test.p, test.exact, test.rank_biserial), (0.0, 2.0 / 32.0, true, -1.0));
    }

    #[test]
    fn ties_have_an_exact_p_value() {
        // Ranks 1.5, 1.5, 3 of signs +, +, -: both sums are 3; of 8 patterns five have a sum of at most 3.
        let test = wilcoxon(&[1.0, 1.0, -2.0]).unwrap();
        assert_eq!((test.statistic, test.p, test.rank_biserial), (3.0, 1.0, 0.0));
        assert_eq!(probability_of_at_most(3.0, &[1.5, 1.5, 3.0]), 5.0 / 8.0);
        assert_eq!(probability_of_at_most(1.5, &[1.5, 1.5, 3.0]), 3.0 / 8.0);
    }

    #[test]
    fn zero_differences_have_a_p_value_of_one() {
        for differences in [vec![0.0, -0.0, 0.0], vec![0.0; 60]] {
            let test = wilcoxon(&differences).unwrap();
            assert_eq!((test.p, test.statistic, test.rank_biserial), (1.0, 0.0, 0.0));
        }
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(wilcoxon(&[]), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(wilcoxon(&[1.0, f64::NAN]), Err(StatisticsError::NotANumber { index: 1, .. })));
    }
}
