//! Percentile bootstrap intervals of a sample and of a stratified sample.
//!
//! Source: Efron and Tibshirani, "An introduction to the bootstrap", 1993, section 13.3. The percentile interval is
//! used in place of the corrected one (BCa) because it also applies to the median, for which the acceleration of BCa is
//! not defined. It is slightly too narrow for fewer than about ten values.

use rand::RngExt;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::rng::stream;

use super::StatisticsError;
use super::error::{require_count, require_finite, require_open_unit};
use super::summary::{mean, quantile_of_sorted};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    /// At least `low`.
    pub high: f64,
}

impl Interval {
    /// Ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Returns the percentile interval of `statistic` with coverage `level` (0.95), from `resamples` samples drawn from
/// `sample` with replacement. Equal seeds give equal intervals.
///
/// # Errors
/// [`StatisticsError::TooFew`] for an empty sample or without resamples, [`StatisticsError::NotANumber`] if a value of
/// the sample or a value of `statistic` is not finite, [`StatisticsError::OutOfRange`] if `level` is not between 0 and 1.
///
/// ```
/// use tunesmith_statistics::{bootstrap::bootstrap_interval, summary::mean};
/// let interval = bootstrap_interval(&[1.0, 2.0, 3.0, 4.0], mean, 0.95, 1000, 7)?;
/// assert!(interval.low < 2.5 && interval.contains(2.5) && interval.high < 4.0);
/// # Ok::<(), tunesmith_statistics::StatisticsError>(())
/// ```
pub fn bootstrap_interval(
    sample: &[f64],
    statistic: fn(&[f64]) -> f64,
    level: f64,
    resamples: usize,
    seed: u64,
) -> Result<Interval, StatisticsError> {
    check(sample.len(), level, resamples)?;
    require_finite("sample", sample)?;
    let mut random = stream(seed, TrialId(0), "bootstrap");
    let mut resample = vec![0.0; sample.len()];
    let mut values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        resample.fill_with(|| sample[random.random_range(0..sample.len())]);
        values.push(statistic(&resample));
    }
    percentiles(values, level)
}

/// Returns the percentile interval of the mean over `strata` of the mean of each. Each of `resamples` redraws the
/// values within each stratum and keeps the strata. Equal seeds give equal intervals.
///
/// With problems as strata and seeds as values, it shows how much the mean varies between seeds on the same problems.
/// The interval always contains the mean itself.
///
/// # Errors
/// As [`bootstrap_interval`]; also [`StatisticsError::TooFew`] if a stratum is empty.
pub fn stratified_interval<Row: AsRef<[f64]>>(
    strata: &[Row],
    level: f64,
    resamples: usize,
    seed: u64,
) -> Result<Interval, StatisticsError> {
    check(strata.len(), level, resamples)?;
    let strata: Vec<&[f64]> = strata.iter().map(AsRef::as_ref).collect();
    for values in &strata {
        require_count("stratum", values.len(), 1)?;
        require_finite("stratum", values)?;
    }
    let mut random = stream(seed, TrialId(0), "stratified bootstrap");
    let mut resample = || {
        let drawn = |values: &&[f64]| {
            let sum: f64 = (0..values.len()).map(|_| values[random.random_range(0..values.len())]).sum();
            sum / values.len() as f64
        };
        strata.iter().map(drawn).sum::<f64>() / strata.len() as f64
    };
    let found = percentiles((0..resamples).map(|_| resample()).collect(), level)?;
    // With equal values, rounding can move the mean out of the interval by the last digit.
    let centre = mean(&strata.iter().map(|values| mean(values)).collect::<Vec<f64>>());
    Ok(Interval { low: found.low.min(centre), high: found.high.max(centre) })
}

fn check(size: usize, level: f64, resamples: usize) -> Result<(), StatisticsError> {
    require_count("sample", size, 1)?;
    require_count("resamples", resamples, 1)?;
    require_open_unit("level", level)
}

/// Interval between the quantiles of the resampled statistic.
fn percentiles(mut values: Vec<f64>, level: f64) -> Result<Interval, StatisticsError> {
    require_finite("bootstrap statistic", &values)?;
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    match (quantile_of_sorted(&values, tail), quantile_of_sorted(&values, 1.0 - tail)) {
        (Some(low), Some(high)) => Ok(Interval { low, high }),
        _ => Err(StatisticsError::TooFew { what: "resamples", found: values.len(), required: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::median;

    #[test]
    fn the_interval_of_the_mean_is_close_to_the_normal_one() {
        // 0..=99: the bootstrap standard error is 28.87 / 10, so the interval is 49.5 +- 1.96 x 2.887 = 5.66.
        let sample: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = bootstrap_interval(&sample, mean, 0.95, 4000, 1).unwrap();
        assert!((interval.low - 43.84).abs() < 0.4 && (interval.high - 55.16).abs() < 0.4, "{interval:?}");
        assert_eq!(bootstrap_interval(&sample, mean, 0.95, 4000, 1), Ok(interval));
        assert_ne!(bootstrap_interval(&sample, mean, 0.95, 4000, 2), Ok(interval));
    }

    #[test]
    fn equal_values_have_an_interval_of_width_zero() {
        assert_eq!(bootstrap_interval(&[2.0; 5], median, 0.9, 50, 0), Ok(Interval { low: 2.0, high: 2.0 }));
        assert_eq!(bootstrap_interval(&[2.0], mean, 0.9, 50, 0), Ok(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn values_are_resampled_within_equally_weighted_strata() {
        // The second stratum cannot vary. The mean of two draws of 0 and 4 is 0, 2 or 4, with 1/4, 1/2 and 1/4.
        let found = stratified_interval(&[vec![0.0, 4.0], vec![10.0; 5]], 0.95, 200, 1);
        assert_eq!(found, Ok(Interval { low: 5.0, high: 7.0 }));
        assert_eq!(stratified_interval(&[[1.0], [2.0]], 0.95, 50, 1), Ok(Interval { low: 1.5, high: 1.5 }));
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(
            bootstrap_interval(&[], mean, 0.9, 9, 0),
            Err(StatisticsError::TooFew { what: "sample", .. })
        ));
        assert!(matches!(bootstrap_interval(&[1.0], mean, 0.9, 0, 0), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(bootstrap_interval(&[f64::NAN], mean, 0.9, 9, 0), Err(StatisticsError::NotANumber { .. })));
        assert!(matches!(bootstrap_interval(&[1.0], mean, 1.0, 9, 0), Err(StatisticsError::OutOfRange { .. })));
        let undefined = bootstrap_interval(&[1.0, 2.0], |_| f64::NAN, 0.9, 9, 0);
        assert!(matches!(undefined, Err(StatisticsError::NotANumber { what: "bootstrap statistic", .. })));
        assert!(matches!(stratified_interval(&[[0.0; 0]], 0.9, 9, 0), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(stratified_interval::<Vec<f64>>(&[], 0.9, 9, 0), Err(StatisticsError::TooFew { .. })));
        assert!(matches!(stratified_interval(&[[f64::NAN]], 0.9, 9, 0), Err(StatisticsError::NotANumber { .. })));
    }
}
