//! Summaries of a sample, and the mean difference of two contestants over problems.
//!
//! [`mean`] and [`median`] return a plain number, so that [`super::bootstrap`] can take them as statistics: NaN for an
//! empty sample, and whenever a value is NaN.

use super::StatisticsError;
use super::error::{require_count, require_finite};
use super::permutation::sign_flip_test;

/// The arithmetic mean; NaN for an empty sample.
pub fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// The middle value, or the mean of the two middle ones; NaN for an empty sample or one with NaN.
pub fn median(sample: &[f64]) -> f64 {
    quantile(sample, 0.5).unwrap_or(f64::NAN)
}

/// The standard error of the mean: the standard deviation (with n − 1) over √n. `None` for fewer than two values or if
/// one is not finite.
pub fn standard_error(sample: &[f64]) -> Option<f64> {
    if sample.len() < 2 || sample.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let centre = mean(sample);
    let count = sample.len() as f64;
    let variance = sample.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (count - 1.0);
    Some((variance / count).sqrt())
}

/// The quantile at `level`, from 0 to 1, by linear interpolation between order statistics: type 7 of Hyndman and Fan,
/// "Sample quantiles in statistical packages", 1996; the default of numpy. `None` for an empty sample, one with NaN, or
/// a level outside its range.
///
/// Infinite values are allowed; a quantile between a finite and an infinite one is infinite, and one between both
/// infinities is `None`.
pub fn quantile(sample: &[f64], level: f64) -> Option<f64> {
    if sample.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, level)
}

/// As [`quantile`], of a sample without NaN that is in increasing order.
pub(super) fn quantile_of_sorted(sorted: &[f64], level: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&level) {
        return None;
    }
    let position = level * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    let weight = position - below as f64;
    // The products of equal values or of weight 0 would turn infinite values into NaN.
    let value = if low == high || weight == 0.0 { low } else { low + weight * (high - low) };
    (!value.is_nan()).then_some(value)
}

/// How two contestants differ over problems.
#[derive(Debug, Clone, PartialEq)]
pub struct StratifiedDifference {
    /// Mean over problems of the mean difference of each.
    pub mean: f64,
    /// One standard error of `mean` over problems; `None` for a single problem.
    pub standard_error: Option<f64>,
    /// Mean difference of each problem, over its runs.
    pub per_problem: Vec<f64>,
    /// Two-sided p value of the sign-flip test over problems, [`sign_flip_test`].
    pub p: f64,
}

/// The mean of paired differences, first over the runs of each problem and then over problems.
///
/// `differences` holds for each problem the paired difference of each of its seeds; seeds may differ in number, every
/// problem weighs the same. With differences of log10 simple regret ([`super::score::log10_regret`]) the mean is the
/// "dlog" of the design notes: negative if the first contestant is better, with one standard error over problems.
/// `seed` keys the random flips that are drawn when there are too many problems to try all.
///
/// # Errors
/// [`StatisticsError::TooFew`] without problems or with a problem without runs, [`StatisticsError::NotANumber`] if a
/// difference is not finite: the index is then that within its problem.
pub fn stratified_difference<Row: AsRef<[f64]>>(
    differences: &[Row],
    seed: u64,
) -> Result<StratifiedDifference, StatisticsError> {
    require_count("problems", differences.len(), 1)?;
    let mut per_problem = Vec::with_capacity(differences.len());
    for runs in differences {
        let runs = runs.as_ref();
        require_count("runs of a problem", runs.len(), 1)?;
        require_finite("differences of a problem", runs)?;
        per_problem.push(mean(runs));
    }
    let p = sign_flip_test(&per_problem, seed)?;
    Ok(StratifiedDifference { mean: mean(&per_problem), standard_error: standard_error(&per_problem), per_problem, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_nan_samples_have_no_summary() {
        assert!(mean(&[]).is_nan() && median(&[]).is_nan() && median(&[1.0, f64::NAN]).is_nan());
        assert_eq!(standard_error(&[1.0]), None);
        assert_eq!(standard_error(&[1.0, f64::INFINITY]), None);
        assert_eq!((quantile(&[], 0.5), quantile(&[f64::NAN], 0.5), quantile(&[1.0], 1.5)), (None, None, None));
        assert_eq!(quantile(&[1.0], f64::NAN), None);
        assert_eq!(standard_error(&[2.0, 2.0, 2.0]), Some(0.0));
    }

    #[test]
    fn quantiles_of_infinite_values_are_no_nan() {
        let sample = [f64::INFINITY, 1.0, f64::INFINITY, 3.0];
        assert_eq!(quantile(&sample, 1.0 / 3.0), Some(3.0));
        assert_eq!(median(&sample), f64::INFINITY);
        assert_eq!(quantile(&sample, 1.0), Some(f64::INFINITY));
        assert_eq!(quantile(&[f64::NEG_INFINITY, f64::INFINITY], 0.5), None);
    }

    #[test]
    fn every_problem_weighs_the_same_however_many_runs_it_has() {
        let found = stratified_difference(&[vec![-1.0, -3.0], vec![1.0; 10]], 0).unwrap();
        assert_eq!(found.per_problem, [-2.0, 1.0]);
        // Mean -0.5; standard deviation 3 / sqrt 2, over sqrt 2; all four flips reach 0.5.
        assert_eq!((found.mean, found.p), (-0.5, 1.0));
        assert!((found.standard_error.unwrap() - 1.5).abs() < 1e-15);
    }

    #[test]
    fn missing_runs_are_errors() {
        assert!(matches!(stratified_difference::<Vec<f64>>(&[], 0), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(stratified_difference(&[vec![1.0], vec![]], 0), Err(StatisticsError::TooFew { .. })));
        let nan = stratified_difference(&[vec![1.0, f64::NAN]], 0);
        assert!(matches!(nan, Err(StatisticsError::NotANumber { index: 1, .. })));
    }
}
