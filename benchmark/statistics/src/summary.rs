//! Summaries of a sample.
//!
//! [`mean`] and [`median`] return a plain number, so that [`super::bootstrap`] accepts them as statistics: NaN for an
//! empty sample or one with NaN.

/// Arithmetic mean; NaN for an empty sample.
pub fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// Middle value, or the mean of both middle values; NaN for an empty sample or one with NaN.
pub fn median(sample: &[f64]) -> f64 {
    quantile(sample, 0.5).unwrap_or(f64::NAN)
}

/// Standard error of the mean: the standard deviation (with n − 1) over √n. `None` for fewer than two values or if one
/// is not finite.
pub fn standard_error(sample: &[f64]) -> Option<f64> {
    if sample.len() < 2 || sample.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let centre = mean(sample);
    let count = sample.len() as f64;
    let variance = sample.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (count - 1.0);
    Some((variance / count).sqrt())
}

/// Quantile at `level`, from 0 to 1, by linear interpolation between order statistics: type 7 of Hyndman and Fan,
/// "Sample quantiles in statistical packages", 1996; the default of numpy. `None` for an empty sample, one with NaN, or
/// a level outside its range.
///
/// Infinite values are allowed. A quantile between a finite and an infinite value is infinite, and one between both
/// infinities is `None`.
pub fn quantile(sample: &[f64], level: f64) -> Option<f64> {
    if sample.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, level)
}

/// [`quantile`] of a sample without NaN in increasing order.
pub(crate) fn quantile_of_sorted(sorted: &[f64], level: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&level) {
        return None;
    }
    let position = level * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    let weight = position - below as f64;
    // With infinite values, equal values or weight 0 would give NaN.
    let value = if low == high || weight == 0.0 { low } else { low + weight * (high - low) };
    (!value.is_nan()).then_some(value)
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
    fn quantiles_of_infinite_values_are_not_nan() {
        let sample = [f64::INFINITY, 1.0, f64::INFINITY, 3.0];
        assert_eq!(quantile(&sample, 1.0 / 3.0), Some(3.0));
        assert_eq!(median(&sample), f64::INFINITY);
        assert_eq!(quantile(&sample, 1.0), Some(f64::INFINITY));
        assert_eq!(quantile(&[f64::NEG_INFINITY, f64::INFINITY], 0.5), None);
    }
}
