//! Logarithm of expected improvement, accurate at any distance from the threshold.
//!
//! Notation: `mu`, `s` posterior mean and standard deviation of the latent function (maximised), `f*` the threshold, `z
//! = (mu - f*) / s`, `h(z) = phi(z) + z Phi(z)`, so that `EI = s h(z)`.
//!
//! Source: Ament et al. 2023, "Unexpected Improvements to Expected Improvement", arXiv 2310.20708, equation 9.
//! Departure: the far branch is a series with six terms that starts at `z = -50` instead of one term from `-1e6`.
//! Between the two, the published middle branch loses digits (`1 - 1/z^2` cancels), which would disturb the gradient.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2};

use crate::numerics::normal::{distribution, erfcx, log_density, log_distribution, log1mexp};

/// Above this the terms of `h` do not cancel.
const NEAR: f64 = -1.0;
/// Below this the first neglected term of the series is under 1e-15.
const FAR: f64 = -50.0;

/// `ln EI` and its partial derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogExpectedImprovement {
    /// `ln EI`.
    pub value: f64,
    /// Derivative by the posterior mean, `Phi(z) / (h(z) s)`.
    pub by_mean: f64,
    /// Derivative by the posterior standard deviation, `phi(z) / (h(z) s)`.
    pub by_deviation: f64,
}

/// `ln EI` of a point with posterior `mean` and standard `deviation > 0` over `threshold`.
pub fn log_expected_improvement(mean: f64, deviation: f64, threshold: f64) -> LogExpectedImprovement {
    let z = (mean - threshold) / deviation;
    let log_h = log_h(z);
    let density_ratio = (log_density(z) - log_h).exp();
    let distribution_ratio = if z > NEAR { (log_distribution(z) - log_h).exp() } else { (1.0 - density_ratio) / z };
    LogExpectedImprovement {
        value: deviation.ln() + log_h,
        by_mean: distribution_ratio / deviation,
        by_deviation: density_ratio / deviation,
    }
}

/// `ln h(z)`, finite for all finite `z` (down to where `z^2` overflows).
pub fn log_h(z: f64) -> f64 {
    if z > NEAR {
        (log_density(z).exp() + z * distribution(z)).ln()
    } else if z > FAR {
        let log_mills = (erfcx(-z * FRAC_1_SQRT_2) * -z).ln() + 0.5 * FRAC_PI_2.ln();
        log_density(z) + log1mexp(log_mills)
    } else {
        // h / phi = 1/z^2 - 3/z^4 + 15/z^6 - ...
        let t = 1.0 / (z * z);
        let tail = -3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t * (1.0 - 9.0 * t * (1.0 - 11.0 * t))));
        log_density(z) - 2.0 * (-z).ln() + tail.ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, relative: f64) {
        assert!((actual - expected).abs() <= relative * expected.abs(), "{actual:e} is not {expected:e}");
    }

    /// Computed with mpmath 1.3.0 at 120 digits from `log(npdf(z) + z*ncdf(z))`, and below -2000 from the asymptotic
    /// series of `h / phi` with nine terms.
    const LOG_H: [(f64, f64); 14] = [
        (-100000000.0, -5000000000000038.0),
        (-1000000.0, -500000000028.55),
        (-1000.0, -500014.73445209116),
        (-60.0, -1809.1084601822722),
        (-50.5, -1283.889059950725),
        (-49.5, -1233.8491064929735),
        (-40.0, -808.29856835662),
        (-10.0, -55.55312203612235),
        (-1.5, -3.52993592080571),
        (-1.0, -2.4851210257126413),
        (-0.5, -1.6205162643873199),
        (0.0, -0.9189385332046728),
        (2.0, 0.6973835457882284),
        (30.0, 3.4011973816621555),
    ];

    #[test]
    fn log_h_agrees_with_high_precision_values() {
        for (z, expected) in LOG_H {
            assert_close(log_h(z), expected, 2e-14);
        }
    }

    /// `h(z) = integral from 0 to infinity of t phi(t - z) dt`; for negative `z` divided by `phi(z)` so that the
    /// integrand `t exp(t z - t^2 / 2)` stays representable. Composite Simpson rule on 20,000 intervals.
    #[test]
    fn log_h_agrees_with_quadrature() {
        for step in -60..=60 {
            let z = f64::from(step) / 2.0;
            let end = if z > 0.0 { z + 12.0 } else { 12.0 / (1.0 - z / 3.0) };
            let integrand =
                |t: f64| if z > 0.0 { t * log_density(t - z).exp() } else { t * (t * z - 0.5 * t * t).exp() };
            let intervals = 20_000;
            let width = end / f64::from(intervals);
            let sum: f64 = (0..=intervals)
                .map(|i| {
                    let weight = if i == 0 || i == intervals {
                        1.0
                    } else if i % 2 == 1 {
                        4.0
                    } else {
                        2.0
                    };
                    weight * integrand(f64::from(i) * width)
                })
                .sum();
            let expected = (sum * width / 3.0).ln() + if z > 0.0 { 0.0 } else { log_density(z) };
            assert!((log_h(z) - expected).abs() < 1e-9 * expected.abs().max(1.0), "{z}: {} {expected}", log_h(z));
        }
    }

    #[test]
    fn branches_meet_at_their_seams() {
        for seam in [NEAR, FAR] {
            let (below, above) = (seam * (1.0 + 1e-13), seam * (1.0 - 1e-13));
            assert_close(log_h(below), log_h(above), 1e-12);
            let slope = |z| log_expected_improvement(z, 1.0, 0.0).by_mean;
            assert_close(slope(below), slope(above), 1e-10);
        }
    }

    #[test]
    fn derivatives_match_finite_differences() {
        for (mean, deviation) in [(0.3, 0.7), (-1.2, 1.0), (-40.0, 1.0), (-4.0, 0.05), (5.0, 0.5)] {
            let value = |m, s| log_expected_improvement(m, s, 0.0).value;
            let actual = log_expected_improvement(mean, deviation, 0.0);
            let h = 1e-6 * deviation;
            assert_close(actual.by_mean, (value(mean + h, deviation) - value(mean - h, deviation)) / (2.0 * h), 1e-6);
            let difference = (value(mean, deviation + h) - value(mean, deviation - h)) / (2.0 * h);
            // A difference of values near 1 resolves nothing below 1e-8.
            assert!((actual.by_deviation - difference).abs() < 1e-6 * difference.abs() + 1e-8);
        }
    }
}
