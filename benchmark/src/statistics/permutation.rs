//! The sign-flip permutation test of paired differences.
//!
//! Source: Fisher, "The design of experiments", 1935, section 21. If neither contestant is better, each difference is
//! as likely to have the other sign; the p value is the share of all sign patterns whose mean is at least as far from 0
//! as the one found, as `scipy.stats.permutation_test(permutation_type="samples")` of the mean.

use rand::RngExt;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::rng::stream;

use super::StatisticsError;
use super::error::{require_count, require_finite};

/// Up to this many differences that are not 0 all patterns are tried: 2^16, a few milliseconds.
pub const EXACT_LIMIT: usize = 16;

/// Patterns that are drawn beyond [`EXACT_LIMIT`]: a p value of 0.05 is then known to ±0.001 (one standard error).
pub const RANDOM_PATTERNS: usize = 50_000;

/// The two-sided p value for a mean of 0.
///
/// Exact up to [`EXACT_LIMIT`] differences. Beyond, [`RANDOM_PATTERNS`] patterns are drawn by `seed`, and the pattern
/// found counts as one of them, which keeps the test valid (Phipson and Smyth, "Permutation p-values should never be
/// zero", 2010). Only zeros: 1.
///
/// # Errors
/// [`StatisticsError::TooFew`] without differences, [`StatisticsError::NotANumber`] if one is not finite.
pub fn sign_flip_test(differences: &[f64], seed: u64) -> Result<f64, StatisticsError> {
    require_count("differences", differences.len(), 1)?;
    require_finite("differences", differences)?;
    // Relative to the largest, so that no sum overflows.
    let largest = differences.iter().fold(0.0, |largest: f64, difference| largest.max(difference.abs()));
    let scaled: Vec<f64> =
        differences.iter().filter(|&&difference| difference != 0.0).map(|difference| difference / largest).collect();
    let sizes: Vec<f64> = scaled.iter().map(|difference| difference.abs()).collect();
    // Sums that are equal but for the order of their terms must count as equal.
    let bound = scaled.iter().sum::<f64>().abs() - 1e-12 * sizes.iter().sum::<f64>();
    let reaches = |pattern: &mut dyn FnMut() -> bool| {
        let sum: f64 = sizes.iter().map(|&size| if pattern() { size } else { -size }).sum();
        sum.abs() >= bound
    };
    if sizes.len() <= EXACT_LIMIT {
        let patterns = 1_u32 << sizes.len();
        let reached = (0..patterns).filter(|&bits| {
            let mut rest = bits;
            reaches(&mut || {
                let positive = rest & 1 == 1;
                rest >>= 1;
                positive
            })
        });
        return Ok(reached.count() as f64 / f64::from(patterns));
    }
    let mut random = stream(seed, TrialId(0), "sign flips");
    let reached = (0..RANDOM_PATTERNS).filter(|_| reaches(&mut || random.random::<bool>())).count();
    Ok((reached + 1) as f64 / (RANDOM_PATTERNS + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_differences_are_tested_exactly() {
        assert_eq!(sign_flip_test(&[1.0, 2.0, 3.0], 0), Ok(0.25));
        // Sums of 1, 2, 4 with signs: 7, 5, 3, 1 and their negatives; 5 is reached by 4 of 8.
        assert_eq!(sign_flip_test(&[-1.0, 2.0, 4.0], 0), Ok(0.5));
        assert_eq!(sign_flip_test(&[0.0, 1.0, 2.0, 3.0], 0), Ok(0.25));
        assert_eq!(sign_flip_test(&[0.0, 0.0], 0), Ok(1.0));
        assert_eq!(sign_flip_test(&[1e308, 1e308, 1e308], 0), Ok(0.25));
    }

    #[test]
    fn many_differences_repeat_by_seed_and_follow_the_normal_limit() {
        // 100 differences of size 1, 60 up: the sum of signs is 20, two standard deviations of 10. By the binomial
        // distribution P(|S| >= 20) = 0.0569.
        let differences: Vec<f64> = (0..100).map(|index| if index < 60 { 1.0 } else { -1.0 }).collect();
        let p = sign_flip_test(&differences, 3).unwrap();
        assert!((p - 0.0569).abs() < 0.005, "{p}");
        assert_eq!(sign_flip_test(&differences, 3), Ok(p));
        assert_eq!(sign_flip_test(&[1.0; 60], 3), Ok(1.0 / 50_001.0));
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(sign_flip_test(&[], 0), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(sign_flip_test(&[1.0, f64::INFINITY], 0), Err(StatisticsError::NotANumber { index: 1, .. })));
    }
}
