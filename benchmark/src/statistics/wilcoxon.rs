//! The paired signed-rank test of Wilcoxon, two-sided.
//!
//! Sources: Wilcoxon, "Individual comparisons by ranking methods", 1945; Pratt, "Remarks on zeros and ties in the
//! Wilcoxon signed rank procedures", 1959; moments with zeros from Cureton, "The normal approximation to the signed-rank
//! sampling distribution when zero differences are present", 1967. Statistic and p value are those of
//! `scipy.stats.wilcoxon` with the same `zero_method`, `correction` and `method`; [`Method::Exact`] departs from it with
//! ties and zeros, where scipy uses the distribution without them, and ours stays exact.

use tunesmith_algorithms::numerics::normal::distribution;

use super::StatisticsError;
use super::error::{require_count, require_finite};
use super::ranks::{ranks_and_ties, tie_sum};

/// The largest number of differences of the exact distribution; as in scipy.
pub const EXACT_LIMIT: usize = 50;

/// Up to this many differences [`Method::Auto`] is exact also with ties or zeros; as in scipy, which tries all signs.
pub const EXACT_TIES_LIMIT: usize = 13;

/// What is done with differences of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroMethod {
    /// They are left out before ranking; `zero_method="wilcox"`.
    #[default]
    Wilcox,
    /// They are ranked, and their ranks left out; `zero_method="pratt"`.
    Pratt,
}

/// Where the p value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Exact up to [`EXACT_LIMIT`] differences without ties or zeros and up to [`EXACT_TIES_LIMIT`] with, else normal.
    #[default]
    Auto,
    /// The distribution over all signs of the ranks found, ties included.
    Exact,
    /// The normal distribution with the variance corrected for ties.
    Normal,
}

/// How the test is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WilcoxonOptions {
    /// What is done with differences of 0.
    pub zero_method: ZeroMethod,
    /// Where the p value comes from.
    pub method: Method,
    /// Whether the normal distribution is corrected for continuity by half a rank. Default true, which is nearer to the
    /// exact p value; scipy's default is false.
    pub correction: bool,
}

impl Default for WilcoxonOptions {
    fn default() -> Self {
        Self { zero_method: ZeroMethod::Wilcox, method: Method::Auto, correction: true }
    }
}

/// The result of [`wilcoxon`].
#[derive(Debug, Clone, PartialEq)]
pub struct WilcoxonTest {
    /// Sum of the ranks of positive differences.
    pub positive_ranks: f64,
    /// Sum of the ranks of negative differences.
    pub negative_ranks: f64,
    /// The smaller of both sums.
    pub statistic: f64,
    /// Two-sided p value; 1 if all differences are 0.
    pub p: f64,
    /// Whether `p` is exact.
    pub exact: bool,
    /// Number of differences that are not 0.
    pub nonzero: usize,
    /// Matched-pairs rank-biserial correlation: the difference of both sums over their total, from −1 (all differences
    /// negative) to 1; 0 if all are 0. Source: Kerby, "The simple difference formula", 2014.
    pub rank_biserial: f64,
}

/// The signed-rank test that `differences` are symmetric around 0.
///
/// # Errors
/// [`StatisticsError::TooFew`] without differences, [`StatisticsError::NotANumber`] if one is not finite,
/// [`StatisticsError::OutOfRange`] for [`Method::Exact`] with more than [`EXACT_LIMIT`].
pub fn wilcoxon(differences: &[f64], options: WilcoxonOptions) -> Result<WilcoxonTest, StatisticsError> {
    require_count("differences", differences.len(), 1)?;
    require_finite("differences", differences)?;
    if options.method == Method::Exact && differences.len() > EXACT_LIMIT {
        return Err(StatisticsError::OutOfRange {
            name: "number of differences of the exact test",
            value: differences.len() as f64,
            allowed: "at most 50",
        });
    }
    let ranked = SignedRanks::new(differences, options.zero_method)?;
    let (positive, negative) = (ranked.positive.iter().sum::<f64>(), ranked.negative.iter().sum::<f64>());
    let nonzero = ranked.positive.len() + ranked.negative.len();
    let statistic = positive.min(negative);
    let exact = match options.method {
        Method::Exact => true,
        Method::Normal => false,
        Method::Auto => {
            let limit = if ranked.ties > 0.0 || ranked.zeros > 0 { EXACT_TIES_LIMIT } else { EXACT_LIMIT };
            differences.len() <= limit
        }
    };
    let p = if nonzero == 0 {
        1.0
    } else if exact {
        let ranks: Vec<f64> = ranked.positive.iter().chain(&ranked.negative).copied().collect();
        (2.0 * probability_of_at_most(statistic, &ranks)).min(1.0)
    } else {
        ranked.normal_p(positive, options.zero_method, options.correction)
    };
    let rank_biserial = if nonzero == 0 { 0.0 } else { (positive - negative) / (positive + negative) };
    Ok(WilcoxonTest {
        positive_ranks: positive,
        negative_ranks: negative,
        statistic,
        p,
        exact: exact || nonzero == 0,
        nonzero,
        rank_biserial,
    })
}

/// Ranks of the sizes of differences.
struct SignedRanks {
    positive: Vec<f64>,
    negative: Vec<f64>,
    /// Number of zeros, whether ranked or not.
    zeros: usize,
    /// Number of ranked values, zeros included if the method ranks them.
    ranked: usize,
    /// Sum of t³ − t over ties of values that are not 0.
    ties: f64,
}

impl SignedRanks {
    fn new(differences: &[f64], zero_method: ZeroMethod) -> Result<Self, StatisticsError> {
        let zeros = differences.iter().filter(|&&difference| difference == 0.0).count();
        let kept: Vec<f64> = match zero_method {
            ZeroMethod::Wilcox => differences.iter().copied().filter(|&difference| difference != 0.0).collect(),
            ZeroMethod::Pratt => differences.to_vec(),
        };
        let sizes: Vec<f64> = kept.iter().map(|difference| difference.abs()).collect();
        let (ranks, ties) = ranks_and_ties(&sizes)?;
        // Zeros are the smallest sizes, hence the first group.
        let zero_groups = usize::from(zero_method == ZeroMethod::Pratt && zeros > 0);
        let of_sign = |sign: f64| {
            let matching = kept.iter().zip(&ranks).filter(|(difference, _)| **difference * sign > 0.0);
            matching.map(|(_, &rank)| rank).collect()
        };
        Ok(Self {
            positive: of_sign(1.0),
            negative: of_sign(-1.0),
            zeros,
            ranked: kept.len(),
            ties: tie_sum(&ties[zero_groups..]),
        })
    }

    fn normal_p(&self, positive: f64, zero_method: ZeroMethod, correction: bool) -> f64 {
        let count = self.ranked as f64;
        let mut mean = count * (count + 1.0) / 4.0;
        let mut scale = count * (count + 1.0) * (2.0 * count + 1.0);
        if zero_method == ZeroMethod::Pratt {
            let zeros = self.zeros as f64;
            mean -= zeros * (zeros + 1.0) / 4.0;
            scale -= zeros * (zeros + 1.0) * (2.0 * zeros + 1.0);
        }
        let deviation = ((scale - self.ties / 2.0) / 24.0).sqrt();
        let distance = positive - mean;
        let shift = if correction && distance != 0.0 { 0.5 } else { 0.0 };
        // Within half a rank of the mean scipy lets the correction overshoot 0; the p value is then that of the
        // overshoot, not 1.
        (2.0 * distribution(-((distance.abs() - shift) / deviation).abs())).min(1.0)
    }
}

/// Probability that the sum of `ranks`, each taken with probability one half, is at most `bound`.
fn probability_of_at_most(bound: f64, ranks: &[f64]) -> f64 {
    // Twice a midrank is a whole number.
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect();
    let last = (2.0 * bound).round().max(0.0) as usize;
    sum_distribution(&doubled).iter().take(last + 1).sum()
}

/// The probability of each sum of `terms`, each taken with probability one half; index: the sum.
///
/// Term by term: the shift algorithm of Streitberg and Röhmel, "Exact distributions for permutation and rank tests",
/// 1986.
pub(super) fn sum_distribution(terms: &[usize]) -> Vec<f64> {
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
        let test = wilcoxon(&[-1.0, -2.0, -3.0, -4.0, -5.0], WilcoxonOptions::default()).unwrap();
        assert_eq!((test.statistic, test.p, test.exact, test.rank_biserial), (0.0, 2.0 / 32.0, true, -1.0));
    }

    #[test]
    fn ties_are_exact_too() {
        // Ranks 1.5, 1.5, 3 of signs +, +, -: both sums are 3; of 8 patterns five have a sum of at most 3.
        let test = wilcoxon(&[1.0, 1.0, -2.0], WilcoxonOptions::default()).unwrap();
        assert_eq!((test.statistic, test.p, test.rank_biserial), (3.0, 1.0, 0.0));
        assert_eq!(probability_of_at_most(3.0, &[1.5, 1.5, 3.0]), 5.0 / 8.0);
        assert_eq!(probability_of_at_most(1.5, &[1.5, 1.5, 3.0]), 3.0 / 8.0);
    }

    #[test]
    fn only_zeros_are_no_difference() {
        for zero_method in [ZeroMethod::Wilcox, ZeroMethod::Pratt] {
            for method in [Method::Auto, Method::Exact, Method::Normal] {
                let options = WilcoxonOptions { zero_method, method, correction: true };
                let test = wilcoxon(&[0.0, -0.0, 0.0], options).unwrap();
                assert_eq!((test.p, test.statistic, test.rank_biserial, test.nonzero), (1.0, 0.0, 0.0, 0));
            }
        }
    }

    #[test]
    fn bad_input_is_an_error() {
        let options = WilcoxonOptions::default();
        assert!(matches!(wilcoxon(&[], options), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(wilcoxon(&[1.0, f64::NAN], options), Err(StatisticsError::NotANumber { index: 1, .. })));
        let exact = WilcoxonOptions { method: Method::Exact, ..options };
        assert!(matches!(wilcoxon(&[1.0; 51], exact), Err(StatisticsError::OutOfRange { .. })));
    }
}
