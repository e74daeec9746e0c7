//! Power transform of Yeo & Johnson 2000, "A new family of power transformations", Biometrika 87(4).

use pulp::{Simd, WithSimd};

use crate::numerics::elementary::{exp, sum, vectorized};

/// Searched range of the exponent. A guess.
const LAMBDA_BOUNDS: (f64, f64) = (-3.0, 5.0);
/// Number of golden-section steps, for an exponent accurate to 1e-6.
const SEARCH_STEPS: u32 = 34;

/// Exponents closer than this to 0 or 2 suffer from cancellation.
const CANCELLING: f64 = 1e-3;

/// Replaces `values` (z-scores) by their transform with the exponent of largest normal likelihood, and returns the
/// exponent. Fewer than three values do not change; the exponent is then 1.
pub fn power_transform(values: &mut [f64]) -> f64 {
    if values.len() < 3 {
        return 1.0;
    }
    let lambda = most_likely_lambda(values);
    values.iter_mut().for_each(|value| *value = yeo_johnson(*value, lambda));
    lambda
}

/// Transform of one value; strictly increasing in `value`, the identity for `lambda = 1`.
pub fn yeo_johnson(value: f64, lambda: f64) -> f64 {
    if value >= 0.0 { box_cox(value, lambda) } else { -box_cox(-value, 2.0 - lambda) }
}

/// Value whose transform with exponent `lambda` is `target`; infinite for targets outside the image, which is bounded
/// above if `lambda < 0` and below if `lambda > 2`.
pub fn inverse_yeo_johnson(target: f64, lambda: f64) -> f64 {
    if target >= 0.0 { inverse_box_cox(target, lambda) } else { -inverse_box_cox(-target, 2.0 - lambda) }
}

/// Inverse of [`box_cox`] for `target >= 0`; infinite beyond `-1 / lambda` for negative `lambda`.
fn inverse_box_cox(target: f64, lambda: f64) -> f64 {
    if lambda.abs() < 1e-12 {
        return target.exp_m1();
    }
    let product = lambda * target;
    if product <= -1.0 { f64::INFINITY } else { (product.ln_1p() / lambda).exp_m1() }
}

/// `((1 + v)^lambda - 1) / lambda` for `v >= 0`, without cancellation near `lambda = 0`.
fn box_cox(value: f64, lambda: f64) -> f64 {
    let log = value.ln_1p();
    if lambda.abs() < 1e-12 { log } else { (lambda * log).exp_m1() / lambda }
}

fn most_likely_lambda(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    // `sign(v) ln(1 + |v|)`, the only input of the likelihood.
    let logs: Vec<f64> = values.iter().map(|value| value.signum() * value.abs().ln_1p()).collect();
    let jacobian: f64 = logs.iter().sum();
    let mut transformed = vec![0.0; values.len()];
    let mut log_likelihood = |lambda: f64| {
        let variance = if lambda.abs().min((2.0 - lambda).abs()) < CANCELLING {
            for (target, value) in transformed.iter_mut().zip(values) {
                *target = yeo_johnson(*value, lambda);
            }
            let mean = transformed.iter().sum::<f64>() / n;
            transformed.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n
        } else {
            vectorized(Variance { logs: &logs, lambda, transformed: &mut transformed })
        };
        -0.5 * n * variance.max(f64::MIN_POSITIVE).ln() + (lambda - 1.0) * jacobian
    };
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = LAMBDA_BOUNDS;
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (log_likelihood(left), log_likelihood(right));
    for _ in 0..SEARCH_STEPS {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = log_likelihood(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = log_likelihood(right);
        }
    }
    0.5 * (low + high)
}

/// Population variance of the values after the transform.
struct Variance<'a> {
    logs: &'a [f64],
    /// Not close to 0 or 2.
    lambda: f64,
    /// Scratch space; overwritten.
    transformed: &'a mut [f64],
}

impl WithSimd for Variance<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let Self { logs, lambda, transformed } = self;
        for (target, log) in transformed.iter_mut().zip(logs) {
            let (exponent, sign) = if *log >= 0.0 { (lambda, 1.0) } else { (2.0 - lambda, -1.0) };
            *target = sign * (exp(exponent * log.abs()) - 1.0) / exponent;
        }
        let n = logs.len() as f64;
        let mean = sum(transformed, transformed, |value, _| value) / n;
        sum(transformed, transformed, |value, _| (value - mean) * (value - mean)) / n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(yeo_johnson(0.7, 1.0), 0.7);
        assert!((yeo_johnson(-0.7, 1.0) + 0.7).abs() < 1e-15);
        assert!((yeo_johnson(1.0, 0.0) - 2.0_f64.ln()).abs() < 1e-15);
        assert!((yeo_johnson(-1.0, 2.0) + 2.0_f64.ln()).abs() < 1e-15);
        assert!((yeo_johnson(2.0, 2.0) - 4.0).abs() < 1e-14);
    }

    #[test]
    fn inverse_undoes_the_transform() {
        for lambda in [-3.0, -0.5, 0.0, 1e-9, 0.7, 1.0, 2.0, 2.5, 5.0] {
            for value in [-4.0, -0.3, 0.0, 1e-9, 0.5, 6.0] {
                let back = inverse_yeo_johnson(yeo_johnson(value, lambda), lambda);
                assert!((back - value).abs() < 1e-9 * (1.0 + value.abs()), "{lambda} {value} {back}");
            }
        }
        assert_eq!(inverse_yeo_johnson(0.5, -2.0), f64::INFINITY);
        assert_eq!(inverse_yeo_johnson(-0.5, 4.0), f64::NEG_INFINITY);
    }

    #[test]
    fn fast_variance_matches_the_transform() {
        let values: Vec<f64> = (0..101).map(|i| (f64::from(i) * 0.7).sin() * 3.0).collect();
        let logs: Vec<f64> = values.iter().map(|value| value.signum() * value.abs().ln_1p()).collect();
        for lambda in [-3.0, -0.5, CANCELLING, 0.3, 1.0, 2.0 - CANCELLING, 2.5, 5.0] {
            let transformed: Vec<f64> = values.iter().map(|value| yeo_johnson(*value, lambda)).collect();
            let mean = transformed.iter().sum::<f64>() / 101.0;
            let expected = transformed.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 101.0;
            let actual = vectorized(Variance { logs: &logs, lambda, transformed: &mut vec![0.0; 101] });
            assert!((actual - expected).abs() < 1e-11 * expected, "{lambda}: {actual} {expected}");
        }
    }

    #[test]
    fn transform_removes_skewness() {
        let skewness = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let moment = |k: i32| values.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / values.len() as f64;
            moment(3) / moment(2).powf(1.5)
        };
        let exponential = (0..200).map(|i| -(1.0 - (f64::from(i) + 0.5) / 200.0).ln() - 1.0);
        let mut values: Vec<f64> = exponential.collect();
        assert!(skewness(&values) > 1.5);
        power_transform(&mut values);
        assert!(skewness(&values).abs() < 0.5);
    }
}
