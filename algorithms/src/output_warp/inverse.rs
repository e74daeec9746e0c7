//! Warp with its inverse, for predictions in the user's units.
//!
//! Medians and other quantiles of a prediction commute with the strictly increasing map. Means and deviations do not
//! and must not be mapped.

use super::yeo_johnson::{inverse_yeo_johnson, yeo_johnson};
use super::{Centered, HalfRank, Standardization, centered, has_low_outlier, power_transform, range, standardize};
use super::{median, standardize_range};

/// Maximum distance of an inverse from the values, in ranges of the values. The image of the power transform is
/// bounded, so the inverse of a quantile beyond it would be infinite. A guess.
const FARTHEST_RANGES: f64 = 10.0;

/// The transform that [`warp`](super::warp) applied to some values, with its inverse.
///
/// ```
/// use tunesmith_algorithms::output_warp::Warp;
///
/// let (warp, targets) = Warp::fit(&[0.1, 0.4, 0.45, 0.5, 0.52], false);
/// assert!((warp.inverse(targets[1]) - 0.4).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Warp {
    /// Inverse of every target if the values are equal.
    constant: f64,
    /// `None` if the values are equal.
    steps: Option<Steps>,
}

#[derive(Debug, Clone, PartialEq)]
struct Steps {
    largest: f64,
    center: f64,
    half_rank: Option<HalfRank>,
    before: Standardization,
    lambda: f64,
    after: Standardization,
    /// Bounds of the inverse of centred values.
    limits: (f64, f64),
}

impl Warp {
    /// Fits the transform of `values` (finite, larger is better). Returns it with their targets, equal to those of
    /// [`warp`](super::warp).
    pub fn fit(values: &[f64], failures: bool) -> (Self, Vec<f64>) {
        let Some(Centered { values: mut targets, largest, center }) = centered(values) else {
            let constant = if values.is_empty() { 0.0 } else { median(values) };
            return (Self { constant, steps: None }, vec![0.0; values.len()]);
        };
        let width = range(&targets) * FARTHEST_RANGES;
        let lowest = targets.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let half_rank = (failures || has_low_outlier(&targets)).then(|| HalfRank::fit(&targets)).flatten();
        if let Some(half_rank) = &half_rank {
            targets.iter_mut().for_each(|value| *value = half_rank.apply(*value));
        }
        let before = standardize_range(&mut targets);
        let lambda = power_transform(&mut targets);
        let after = standardize(&mut targets);
        let limits = (lowest - width, highest + width);
        let steps = Steps { largest, center, half_rank, before, lambda, after, limits };
        (Self { constant: 0.0, steps: Some(steps) }, targets)
    }

    /// Standard deviation of the target of a value with the standard deviation `deviation` (not negative): half the distance
    /// between the targets of `value - deviation` and `value + deviation`.
    pub fn deviation(&self, value: f64, deviation: f64) -> f64 {
        let Some(steps) = &self.steps else { return 0.0 };
        0.5 * (steps.target(value + deviation) - steps.target(value - deviation))
    }

    /// Value whose target is `target`: non-decreasing in `target`, finite, at most ten ranges of the values away from
    /// them.
    ///
    /// Below the median of values transformed by the half-rank guard, the inverse is interpolated linearly between
    /// ranks and is at least the lowest value.
    pub fn inverse(&self, target: f64) -> f64 {
        let Some(steps) = &self.steps else { return self.constant };
        let before = inverse_yeo_johnson(steps.after.undo(target), steps.lambda);
        let mut value = steps.before.undo(before);
        if let Some(half_rank) = &steps.half_rank {
            value = half_rank.inverse(value);
        }
        let (low, high) = steps.limits;
        // The result is NaN only if the target is.
        ((value.max(low).min(high) + steps.center) * steps.largest).clamp(f64::MIN, f64::MAX)
    }
}

impl Steps {
    /// Target of `value`, which is moved to at most ten ranges of the fitted values away from them.
    fn target(&self, value: f64) -> f64 {
        let (low, high) = self.limits;
        let mut target = (value / self.largest - self.center).max(low).min(high);
        if let Some(half_rank) = &self.half_rank {
            target = half_rank.apply(target);
        }
        self.after.apply(yeo_johnson(self.before.apply(target), self.lambda))
    }
}

impl Standardization {
    fn apply(self, value: f64) -> f64 {
        (value / self.unit - self.mean) * self.scale
    }

    fn undo(self, value: f64) -> f64 {
        if self.scale == 0.0 { self.mean * self.unit } else { (value / self.scale + self.mean) * self.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 9] = [-3.0, 0.1, 0.2, 0.5, 0.9, 1.4, 7.0, 0.9, 0.6];

    #[test]
    fn values_round_trip() {
        // Next to a range of 1e12, three or four digits remain.
        let with_outlier: Vec<f64> = VALUES.iter().copied().chain([-1e6, -1e12]).collect();
        for (values, failures) in [(&VALUES[..], false), (&VALUES, true), (&with_outlier, false), (&VALUES[..2], false)]
        {
            let (warp, targets) = Warp::fit(values, failures);
            assert_eq!(targets, super::super::warp(values, failures));
            for (value, target) in values.iter().zip(&targets) {
                let back = warp.inverse(*target);
                assert!((back - value).abs() <= 1e-9 * value.abs().max(1.0) + 1e-15 * range(values), "{value} {back}");
            }
        }
    }

    #[test]
    fn deviation_is_that_of_a_linear_map_where_the_warp_is_one() {
        // Two values are only standardised, to -1 and 1.
        let (warp, _) = Warp::fit(&[2.0, 6.0], false);
        assert!((warp.deviation(5.0, 0.5) - 0.25).abs() < 1e-12);
        assert_eq!((warp.deviation(5.0, 0.0), warp.deviation(-1e9, 1.0)), (0.0, 0.0));
        assert_eq!(Warp::fit(&[4.2; 5], false).0.deviation(4.2, 1.0), 0.0);
    }

    #[test]
    fn deviation_is_finite_and_grows_with_that_of_the_value() {
        let with_outlier: Vec<f64> = VALUES.iter().copied().chain([-1e6, -1e12]).collect();
        for values in [&VALUES[..], &with_outlier, &[1e308, -1e308, 0.0]] {
            let (warp, targets) = Warp::fit(values, false);
            let fitted: Vec<f64> =
                values.iter().map(|value| warp.inverse(warp.steps.as_ref().unwrap().target(*value))).collect();
            assert!(
                fitted.iter().zip(values).all(|(one, other)| (one - other).abs() <= 1e-9 * range(values)),
                "{targets:?}"
            );
            for value in values {
                let deviations = [0.0, 0.1, 1.0, 1e3, f64::MAX].map(|deviation| warp.deviation(*value, deviation));
                assert!(deviations.is_sorted() && deviations.iter().all(|one| one.is_finite()), "{deviations:?}");
            }
        }
    }

    #[test]
    fn inverse_is_monotone_and_finite_everywhere() {
        let exponential: Vec<f64> = (0..40).map(|i| (f64::from(i) / 4.0).exp()).collect();
        let mirrored: Vec<f64> = exponential.iter().map(|value| -value).collect();
        for values in [&VALUES[..], &exponential, &mirrored, &[1e308, -1e308, 0.0]] {
            for failures in [false, true] {
                let (warp, _) = Warp::fit(values, failures);
                let inverse: Vec<f64> = (-200..=200).map(|i| warp.inverse(f64::from(i) / 10.0)).collect();
                assert!(inverse.iter().all(|value| value.is_finite()), "{inverse:?}");
                assert!(inverse.windows(2).all(|pair| pair[0] <= pair[1]), "{inverse:?}");
            }
        }
    }

    #[test]
    fn every_target_of_equal_values_inverts_to_that_value() {
        let (warp, targets) = Warp::fit(&[4.2; 5], false);
        assert_eq!((warp.inverse(-7.0), targets), (4.2, vec![0.0; 5]));
    }
}
