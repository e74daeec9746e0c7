//! Percentile bootstrap intervals of a sample and of best-so-far curves.
//!
//! Source: Efron and Tibshirani, "An introduction to the bootstrap", 1993, section 13.3. The percentile interval, not a
//! corrected one (BCa): it also serves the median, for which the acceleration of BCa is not defined. It is a little too
//! narrow for fewer than about ten values.

use rand::RngExt;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_algorithms::rng::stream;

use super::StatisticsError;
use super::error::{require_count, require_finite, require_open_unit, require_rectangle};
use super::summary::quantile_of_sorted;

/// A range of values, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end, at least `low`.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, or on an end.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The percentile interval of `statistic`, of coverage `level` (0.95), from `resamples` samples drawn from `sample` with
/// replacement. The same seed gives the same interval.
///
/// # Errors
/// [`StatisticsError::TooFew`] for an empty sample or without resamples, [`StatisticsError::NotANumber`] if a value of
/// the sample or a value of `statistic` is not finite, [`StatisticsError::OutOfRange`] if `level` is not between 0 and 1.
///
/// ```
/// use tunesmith_benchmark::statistics::{bootstrap::bootstrap_interval, summary::mean};
/// let interval = bootstrap_interval(&[1.0, 2.0, 3.0, 4.0], mean, 0.95, 1000, 7)?;
/// assert!(interval.low < 2.5 && interval.contains(2.5) && interval.high < 4.0);
/// # Ok::<(), tunesmith_benchmark::statistics::StatisticsError>(())
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
    interval_of(sample, statistic, level, resamples, seed)
}

/// The percentile interval of `statistic` at each point of `curves`, shape runs × points.
///
/// Whole runs are drawn, the same for all points. A point at which a run has no finite value (it found nothing feasible
/// yet) has no interval. Empty for curves without points.
///
/// # Errors
/// As [`bootstrap_interval`]; [`StatisticsError::Ragged`] if curves differ in length.
pub fn bootstrap_curve<Row: AsRef<[f64]>>(
    curves: &[Row],
    statistic: fn(&[f64]) -> f64,
    level: f64,
    resamples: usize,
    seed: u64,
) -> Result<Vec<Option<Interval>>, StatisticsError> {
    let points = require_rectangle(curves)?;
    check(curves.len(), level, resamples)?;
    let mut intervals = Vec::with_capacity(points);
    for point in 0..points {
        let sample: Vec<f64> = curves.iter().map(|curve| curve.as_ref()[point]).collect();
        intervals.push(if sample.iter().all(|value| value.is_finite()) {
            Some(interval_of(&sample, statistic, level, resamples, seed)?)
        } else {
            None
        });
    }
    Ok(intervals)
}

fn check(size: usize, level: f64, resamples: usize) -> Result<(), StatisticsError> {
    require_count("sample", size, 1)?;
    require_count("resamples", resamples, 1)?;
    require_open_unit("level", level)
}

/// The interval for checked input. The draws depend on `seed` and the size of the sample only, hence the points of a
/// curve share them.
fn interval_of(
    sample: &[f64],
    statistic: fn(&[f64]) -> f64,
    level: f64,
    resamples: usize,
    seed: u64,
) -> Result<Interval, StatisticsError> {
    let mut random = stream(seed, TrialId(0), "bootstrap");
    let mut resample = vec![0.0; sample.len()];
    let mut values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        resample.fill_with(|| sample[random.random_range(0..sample.len())]);
        values.push(statistic(&resample));
    }
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
    use super::super::summary::{mean, median};
    use super::*;

    #[test]
    fn interval_of_the_mean_is_near_the_normal_one() {
        // 0..=99: the bootstrap standard error is 28.87 / 10, so the interval is 49.5 +- 1.96 x 2.887 = 5.66.
        let sample: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = bootstrap_interval(&sample, mean, 0.95, 4000, 1).unwrap();
        assert!((interval.low - 43.84).abs() < 0.4 && (interval.high - 55.16).abs() < 0.4, "{interval:?}");
        assert_eq!(bootstrap_interval(&sample, mean, 0.95, 4000, 1), Ok(interval));
        assert_ne!(bootstrap_interval(&sample, mean, 0.95, 4000, 2), Ok(interval));
    }

    #[test]
    fn equal_values_have_an_interval_of_no_width() {
        assert_eq!(bootstrap_interval(&[2.0; 5], median, 0.9, 50, 0), Ok(Interval { low: 2.0, high: 2.0 }));
        assert_eq!(bootstrap_interval(&[2.0], mean, 0.9, 50, 0), Ok(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn each_point_of_a_curve_has_the_interval_of_its_values() {
        let curves = [[f64::INFINITY, 5.0, 1.0], [9.0, 6.0, 2.0], [8.0, 7.0, 0.0]];
        let band = bootstrap_curve(&curves, mean, 0.8, 300, 4).unwrap();
        assert_eq!(band[0], None);
        assert_eq!(band[1], bootstrap_interval(&[5.0, 6.0, 7.0], mean, 0.8, 300, 4).ok());
        assert_eq!(band[2], bootstrap_interval(&[1.0, 2.0, 0.0], mean, 0.8, 300, 4).ok());
        assert_eq!(bootstrap_curve(&[[0.0; 0]], mean, 0.8, 300, 4), Ok(vec![]));
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
        let ragged = bootstrap_curve(&[vec![1.0], vec![]], mean, 0.9, 9, 0);
        assert!(matches!(ragged, Err(StatisticsError::Ragged { .. })));
    }
}
