//! The Hodges-Lehmann estimate: how large a paired difference is, in the sense of [`super::wilcoxon`].
//!
//! Sources: Hodges and Lehmann, "Estimates of location based on rank tests", 1963; interval as in Hollander, Wolfe and
//! Chicken, "Nonparametric statistical methods", 3rd edition, 2014, sections 3.2 and 3.3. The Walsh averages of a sample
//! are the means of all pairs of its values, each value with itself included.

use tunesmith_algorithms::numerics::normal::quantile;

use super::StatisticsError;
use super::bootstrap::Interval;
use super::error::{require_count, require_finite, require_open_unit};
use super::summary::quantile_of_sorted;
use super::wilcoxon::{EXACT_LIMIT, sum_distribution};

/// The result of [`hodges_lehmann`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HodgesLehmann {
    /// Median of the Walsh averages.
    pub estimate: f64,
    /// Interval of at least the coverage asked for; `None` if there are too few differences for it (fewer than 6 at
    /// 0.95).
    pub interval: Option<Interval>,
}

/// The estimate of the centre of `differences`, with a confidence interval of coverage `level` (0.95).
///
/// The ends of the interval are order statistics of the Walsh averages: those at which the signed-rank test, exact and
/// without ties up to 50 differences and normal with continuity correction beyond, does not reject. With ties it is
/// conservative. Takes n² / 2 numbers for n differences.
///
/// # Errors
/// [`StatisticsError::TooFew`] without differences, [`StatisticsError::NotANumber`] if one is not finite,
/// [`StatisticsError::OutOfRange`] if `level` is not between 0 and 1.
pub fn hodges_lehmann(differences: &[f64], level: f64) -> Result<HodgesLehmann, StatisticsError> {
    require_count("differences", differences.len(), 1)?;
    require_finite("differences", differences)?;
    require_open_unit("level", level)?;
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, first) in differences.iter().enumerate() {
        averages.extend(differences[index..].iter().map(|&second| f64::midpoint(*first, second)));
    }
    averages.sort_by(f64::total_cmp);
    let depth = depth(differences.len(), 1.0 - level);
    let interval = (depth > 0 && 2 * depth <= averages.len() + 1)
        .then(|| Interval { low: averages[depth - 1], high: averages[averages.len() - depth] });
    let estimate = quantile_of_sorted(&averages, 0.5).unwrap_or(f64::NAN);
    Ok(HodgesLehmann { estimate, interval })
}

/// How many Walsh averages lie on either side of the interval, its ends included: the number of values w that the rank
/// sum stays at or below with probability at most α / 2.
fn depth(count: usize, alpha: f64) -> usize {
    if count <= EXACT_LIMIT {
        let terms: Vec<usize> = (1..=count).collect();
        let mut below = 0.0;
        let rejected = sum_distribution(&terms).into_iter().take_while(|probability| {
            below += probability;
            below <= alpha / 2.0
        });
        return rejected.count();
    }
    let n = count as f64;
    let (mean, deviation) = (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt());
    ((mean - 0.5 - quantile(1.0 - alpha / 2.0) * deviation).floor() + 1.0).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_and_interval_by_hand() {
        // Six differences: P(T = 0) = 1/64 <= 0.025 < P(T <= 1) = 2/64, so the ends are the extreme averages.
        let found = hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95).unwrap();
        assert_eq!(found, HodgesLehmann { estimate: 3.5, interval: Some(Interval { low: 1.0, high: 6.0 }) });
    }

    #[test]
    fn too_few_differences_have_an_estimate_only() {
        let found = hodges_lehmann(&[1.0, 3.0, 8.0], 0.95).unwrap();
        // Averages 1, 2, 3, 4.5, 5.5, 8.
        assert_eq!(found, HodgesLehmann { estimate: 3.75, interval: None });
    }

    #[test]
    fn equal_differences_have_an_interval_of_no_width() {
        let found = hodges_lehmann(&[0.0; 60], 0.95).unwrap();
        assert_eq!(found, HodgesLehmann { estimate: 0.0, interval: Some(Interval { low: 0.0, high: 0.0 }) });
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(hodges_lehmann(&[], 0.95), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(hodges_lehmann(&[f64::NAN], 0.95), Err(StatisticsError::NotANumber { .. })));
        assert!(matches!(hodges_lehmann(&[1.0], f64::NAN), Err(StatisticsError::OutOfRange { .. })));
    }
}
