//! Warps raw objective values to targets of the model: limits outliers, removes skewness, and standardises to mean 0
//! and variance 1.
//!
//! All values are maximised. The steps are: centre by the median and divide by the range, half-rank transform if there
//! are outliers, Yeo-Johnson on z-scores, standardise again. Every step commutes with `y -> a y + b`, `a > 0`.

mod half_rank;
mod inverse;
mod yeo_johnson;

use half_rank::HalfRank;
pub use half_rank::half_rank;
pub use inverse::Warp;
pub use yeo_johnson::{inverse_yeo_johnson, power_transform, yeo_johnson};

/// z-score beyond which a value is an outlier. Vizier always applies its half-rank warp; on data that look Gaussian
/// that only discards information.
const OUTLIER_Z_SCORE: f64 = 5.0;
/// The same limit in units of the median absolute deviation. A z-score cannot exceed sqrt(n), so few points need this
/// second rule. A guess, far beyond the values of skewed but harmless objectives.
const OUTLIER_ROBUST_SCORE: f64 = 100.0;
/// A range below this fraction of the largest value is rounding noise.
const RELATIVE_FLOOR: f64 = 1e-13;

/// Targets of `values` (finite, larger is better), in order: mean 0 and population variance 1, or all 0 if the values
/// are equal. `failures` states whether there are trials without a value, which makes outliers likely.
pub fn warp(values: &[f64], failures: bool) -> Vec<f64> {
    Warp::fit(values, failures).1
}

/// [`warp`] without Yeo-Johnson: differences between good values keep their proportions, as the hypervolume counts them.
pub fn standardized(values: &[f64], failures: bool) -> Vec<f64> {
    let Some(Centered { values: mut targets, .. }) = centered(values) else { return vec![0.0; values.len()] };
    if failures || has_low_outlier(&targets) {
        half_rank(&mut targets);
    }
    standardize_range(&mut targets);
    targets
}

/// Values `y / largest - center`.
struct Centered {
    values: Vec<f64>,
    largest: f64,
    center: f64,
}

/// Rescaled values with median 0; `None` if they are equal up to rounding, or if there are none.
fn centered(values: &[f64]) -> Option<Centered> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return None;
    }
    // Dividing first avoids overflow in the difference of two huge values. Subtracting the median instead of the mean
    // keeps the precision of the other values next to one huge loss.
    let mut targets: Vec<f64> = values.iter().map(|value| value / largest).collect();
    if range(&targets) <= RELATIVE_FLOOR {
        return None;
    }
    let center = median(&targets);
    targets.iter_mut().for_each(|value| *value -= center);
    Some(Centered { values: targets, largest, center })
}

/// Values `(v / unit - mean) scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Standardization {
    unit: f64,
    mean: f64,
    /// 0 if the values are equal.
    scale: f64,
}

/// Standardises to mean 0 and variance 1. Dividing by the range first avoids underflow and overflow of squares.
fn standardize_range(values: &mut [f64]) -> Standardization {
    let unit = range(values);
    values.iter_mut().for_each(|value| *value /= unit);
    Standardization { unit, ..standardize(values) }
}

/// Target of a failed trial, given the targets of the others: below the worst by half their range and one standard
/// deviation, as in Vizier's infeasible warper (`vizier/_src/algorithms/designers/gp/output_warpers.py`).
pub fn failure_target(targets: &[f64]) -> f64 {
    let lowest = targets.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if targets.is_empty() { -1.0 } else { lowest - 0.5 * (highest - lowest) - 1.0 }
}

fn standardize(values: &mut [f64]) -> Standardization {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
    let deviation = variance.sqrt();
    // Values of unit range have such a small deviation only if the transform flattened them.
    let scale = if deviation > 1e-12 { deviation.recip() } else { 0.0 };
    values.iter_mut().for_each(|value| *value = (*value - mean) * scale);
    Standardization { unit: 1.0, mean, scale }
}

fn range(values: &[f64]) -> f64 {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lowest
}

fn has_low_outlier(values: &[f64]) -> bool {
    let unit = range(values);
    let mut standardized: Vec<f64> = values.iter().map(|value| value / unit).collect();
    standardize(&mut standardized);
    if standardized.iter().any(|z| z.abs() > OUTLIER_Z_SCORE) {
        return true;
    }
    let median = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let spread = self::median(&deviations);
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    spread > 0.0 && median - lowest > OUTLIER_ROBUST_SCORE * spread
}

/// Median of at least one value; for an even count the mean of the middle two.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 7] = [-3.0, 0.1, 0.2, 0.5, 0.9, 1.4, 7.0];

    #[test]
    fn targets_are_standardised_and_preserve_the_order() {
        let targets = warp(&VALUES, false);
        assert!(targets.iter().sum::<f64>().abs() < 1e-12);
        assert!((targets.iter().map(|t| t * t).sum::<f64>() / 7.0 - 1.0).abs() < 1e-12);
        assert!(targets.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn targets_are_invariant_under_affine_changes_of_units() {
        let targets = warp(&VALUES, true);
        for (a, b) in [(1e-9, 0.0), (3.0, -2.0), (1e200, 1e200)] {
            let changed: Vec<f64> = VALUES.iter().map(|y| a * y + b).collect();
            for (target, other) in targets.iter().zip(warp(&changed, true)) {
                assert!((target - other).abs() < 1e-9, "{target} {other}");
            }
        }
    }

    #[test]
    fn standardised_values_keep_the_proportions_of_differences() {
        let targets = standardized(&VALUES, false);
        assert!((targets.iter().map(|t| t * t).sum::<f64>() / 7.0 - 1.0).abs() < 1e-12);
        let unit = (targets[1] - targets[0]) / (VALUES[1] - VALUES[0]);
        for (target, value) in targets.iter().zip(VALUES) {
            assert!((target - targets[0] - unit * (value - VALUES[0])).abs() < 1e-12);
        }
        assert_eq!(standardized(&[4.2; 5], true), [0.0; 5]);
        assert!(standardized(&[], false).is_empty());
        // An outlier on the bad side does not.
        let with_outlier = standardized(&[0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, -1e30], false);
        assert!(with_outlier[6] - with_outlier[3] > 0.5, "{with_outlier:?}");
    }

    #[test]
    fn equal_and_single_values_become_zeros() {
        assert_eq!(warp(&[4.2; 5], false), [0.0; 5]);
        assert_eq!(warp(&[0.0], true), [0.0]);
        assert_eq!(warp(&[-7.0], false), [0.0]);
        assert!(warp(&[], false).is_empty());
    }

    #[test]
    fn good_values_stay_distinct_next_to_a_huge_loss() {
        for count in [1, 3] {
            let mut values = vec![0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, 1.1, 1.2];
            values.extend(vec![-1e30; count]);
            let targets = warp(&values, false);
            assert!(targets[8] - targets[4] > 0.5, "{targets:?}");
        }
        assert!(warp(&[f64::MAX, -f64::MAX, 0.0], true).iter().all(|t| t.is_finite()));
    }

    #[test]
    fn failure_target_is_below_all_others() {
        assert_eq!(failure_target(&[-1.0, 1.0]), -3.0);
        assert_eq!(failure_target(&[]), -1.0);
    }
}
