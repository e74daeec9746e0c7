//! Logarithm of the mean expected improvement over many fantasy samples.
//!
//! Notation: `z_s = (mu_s - f*_s) / s` in sample `s` of `S`, `h(z) = phi(z) + z Phi(z)`, so that `EI_s = s h(z_s)`; the
//! value is `ln((1/S) sum_s EI_s)`, computed relative to the largest density. With `x = |z|`, `h(z) = max(z, 0) +
//! phi(z) g(x)` for `g(x) = 1 - x M(x)`, where `M(x) = Phi(-x) / phi(x)` is Mills' ratio.
//!
//! `(1 + x)^2 g(x)` and `(1 + x) M(x)` are smooth and bounded. They are evaluated without branches, as polynomials in
//! `t = (x - 4) / (x + 4)` with a relative error below 1e-14 (the substitution of Shepherd & Laframboise 1981,
//! "Chebyshev approximation of (1+2x)exp(x^2)erfc x", Math. Comp. 36; our own coefficients, from a Chebyshev expansion
//! at 60 digits).

use std::f64::consts::PI;

use pulp::{Simd, WithSimd};

use crate::numerics::elementary::{exp, sum, vectorized};

/// `ln((1/S) sum_s EI_s)` from `mu_s` and `f*_s` (length S both, at least 1) and `s > 0`.
pub(super) fn pooled(means: &[f64], deviation: f64, thresholds: &[f64]) -> f64 {
    vectorized(Pool { means, deviation, thresholds, by_means: None }).0
}

/// [`pooled`] with its derivative by `s`; writes those by `mu_s` to `by_means` (length S).
pub(super) fn pooled_with_derivatives(
    means: &[f64],
    deviation: f64,
    thresholds: &[f64],
    by_means: &mut [f64],
) -> (f64, f64) {
    vectorized(Pool { means, deviation, thresholds, by_means: Some(by_means) })
}

struct Pool<'a> {
    means: &'a [f64],
    deviation: f64,
    thresholds: &'a [f64],
    by_means: Option<&'a mut [f64]>,
}

impl WithSimd for Pool<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> (f64, f64) {
        let Self { means, deviation, thresholds, by_means } = self;
        let inverse_root = (2.0 * PI).sqrt().recip();
        let mut scores = vec![0.0; means.len()];
        let mut largest = f64::NEG_INFINITY;
        for ((z, mean), threshold) in scores.iter_mut().zip(means).zip(thresholds) {
            *z = (mean - threshold) / deviation;
            largest = if *z > largest { *z } else { largest };
        }
        // ln of the largest phi(z) among negative z, or 0; all terms are relative to it.
        let reference = if largest < 0.0 { -0.5 * largest * largest } else { 0.0 };
        let density = |z: f64| inverse_root * exp(-0.5 * z * z - reference);
        let term = |z: f64| if z > 0.0 { z } else { 0.0 } + density(z) * remainder(z.abs());
        let total = sum(&scores, &scores, |z, _| term(z));
        let count = means.len() as f64;
        let value = deviation.ln() + reference + (total / count).ln();
        let Some(by_means) = by_means else { return (value, 0.0) };
        let scale = (deviation * total).recip();
        for (by_mean, z) in by_means.iter_mut().zip(&scores) {
            let tail = density(*z) * mills(z.abs());
            *by_mean = scale * if *z > 0.0 { 1.0 - tail } else { tail };
        }
        (value, scale * sum(&scores, &scores, |z, _| density(z)))
    }
}

/// `g(x)` for `x >= 0`.
#[inline(always)]
fn remainder(x: f64) -> f64 {
    let inverse = (1.0 + x).recip();
    polynomial(&REMAINDER, (x - 4.0) / (x + 4.0)) * inverse * inverse
}

/// `M(x)` for `x >= 0`.
#[inline(always)]
fn mills(x: f64) -> f64 {
    polynomial(&MILLS, (x - 4.0) / (x + 4.0)) / (1.0 + x)
}

/// `sum_k coefficients_k t^k`.
#[inline(always)]
fn polynomial(coefficients: &[f64; 24], t: f64) -> f64 {
    let mut sum = coefficients[23];
    for coefficient in coefficients[..23].iter().rev() {
        sum = sum * t + coefficient;
    }
    sum
}

/// `(1 + x)^2 g(x)` by powers of `t`.
const REMAINDER: [f64; 24] = [
    1.334_761_708_643_935,
    -0.346_864_438_445_705_25,
    -0.172_681_708_346_690_28,
    0.353_547_276_477_219_84,
    -0.221_261_506_351_595_67,
    0.027_117_664_451_220_273,
    0.056_082_892_795_692_81,
    -0.038_891_091_589_576_9,
    0.004_677_626_250_742_232,
    0.005_832_609_761_067_376,
    -0.001_935_854_013_308_309_6,
    -0.000_882_233_202_759_798_8,
    0.000_426_360_491_908_814_7,
    0.000_174_433_180_583_382_68,
    -8.117_621_545_798_182e-5,
    -4.337_233_159_205_227e-5,
    1.299_300_211_660_237_4e-5,
    1.141_871_520_158_785_7e-5,
    -1.345_340_140_170_956e-6,
    -2.701_054_408_179_195e-6,
    -1.107_490_062_856_445_4e-8,
    4.797_198_175_279_105e-7,
    2.015_769_930_098_768_6e-8,
    -4.568_106_822_393_310_4e-8,
];

/// `(1 + x) M(x)` by powers of `t`.
const MILLS: [f64; 24] = [
    1.183_261_914_567_803_4,
    -0.242_399_670_521_808_1,
    0.035_091_880_234_763_39,
    0.071_690_481_201_437_44,
    -0.080_708_009_679_785_49,
    0.044_959_129_077_069_81,
    -0.012_539_103_606_711_88,
    -0.000_715_950_905_283_812_1,
    0.001_741_848_641_757_937,
    -0.000_236_701_758_827_122_58,
    -0.000_220_214_824_906_641_87,
    5.326_697_093_831_536_5e-5,
    3.415_610_694_080_613_5e-5,
    -8.606_187_876_096_938e-6,
    -6.546_928_120_500_802e-6,
    1.019_489_087_098_735_7e-6,
    1.380_587_677_952_301_2e-6,
    -3.101_083_609_757_584e-9,
    -2.762_894_422_383_087_3e-7,
    -4.494_916_382_038_613e-8,
    4.372_207_364_651_429e-8,
    1.372_305_945_245_965_1e-8,
    -3.874_300_207_686_973e-9,
    -1.695_299_681_888_058_3e-9,
];

#[cfg(test)]
mod tests {
    use super::super::log_expected_improvement::{log_expected_improvement, log_h};
    use super::*;

    #[test]
    fn one_sample_equals_log_expected_improvement() {
        for step in -400..=200 {
            let z = f64::from(step) / 10.0;
            for z in [z, 1e3 * z] {
                let (value, expected) = (pooled(&[z], 1.0, &[0.0]), log_h(z));
                assert!((value - expected).abs() < 4e-14 * expected.abs().max(1.0), "{z}: {value} {expected}");
            }
        }
    }

    #[test]
    fn many_samples_are_averaged_with_their_derivatives() {
        for (center, width, deviation) in [(0.0, 3.0, 0.7), (-30.0, 9.0, 0.2), (-2e3, 1e3, 1.0), (4.0, 1.0, 2.0)] {
            let means: Vec<f64> = (0..37).map(|i| center + width * (f64::from(i) * 1.7).sin()).collect();
            let thresholds: Vec<f64> = (0..37).map(|i| 0.1 * (f64::from(i) * 0.3).cos()).collect();
            let samples: Vec<_> =
                (0..37).map(|s| log_expected_improvement(means[s], deviation, thresholds[s])).collect();
            let largest = samples.iter().map(|sample| sample.value).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = samples.iter().map(|sample| (sample.value - largest).exp()).sum();
            let expected = largest + (sum / 37.0).ln();
            let mut by_means = vec![f64::NAN; 37];
            let (value, by_deviation) = pooled_with_derivatives(&means, deviation, &thresholds, &mut by_means);
            assert!((value - expected).abs() < 1e-12 * expected.abs().max(1.0), "{value} {expected}");
            assert_eq!(value.to_bits(), pooled(&means, deviation, &thresholds).to_bits());
            let share = |s: usize| (samples[s].value - expected).exp() / 37.0;
            for (s, by_mean) in by_means.iter().enumerate() {
                let expected = share(s) * samples[s].by_mean;
                assert!((by_mean - expected).abs() < 1e-9 * expected + 1e-200, "{by_mean:e} {expected:e}");
            }
            let expected: f64 = (0..37).map(|s| share(s) * samples[s].by_deviation).sum();
            assert!((by_deviation - expected).abs() < 1e-9 * expected, "{by_deviation:e} {expected:e}");
        }
    }
}
