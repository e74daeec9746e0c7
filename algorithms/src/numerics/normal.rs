//! Tails of the normal distribution without underflow.
//!
//! `erfc` comes from `libm` (a port of FreeBSD's, error below one unit in the last place). The one in `statrs` is
//! accurate to 1e-10 only, which is not enough for the logarithms here.
//!
//! Notation: `phi` density and `Phi` distribution function of the standard normal, `z` a standardised value.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use libm::erfc;
use statrs::function::erf::erfc_inv;

pub(crate) const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// `exp(x^2) erfc(x)`, the scaled complementary error function. Finite for `x > -26`; tends to 0 as `x` grows.
/// Below 10 by its definition, above by the asymptotic series (Abramowitz & Stegun 1964, 7.1.23), summed until its
/// terms vanish. There the rounding error of `x^2` would cost the definition three digits.
pub fn erfcx(x: f64) -> f64 {
    if x < 10.0 {
        return (x * x).exp() * erfc(x);
    }
    let t = 1.0 / (2.0 * x * x);
    let (mut sum, mut term, mut odd) = (1.0, 1.0_f64, 1.0);
    while term.abs() > 1e-17 {
        term *= -odd * t;
        odd += 2.0;
        sum += term;
    }
    sum / (x * PI.sqrt())
}

/// `ln(1 - exp(w))` for `w <= 0`; negative infinity at 0 (Maechler 2012, "Accurately computing log(1 - exp(-|a|))").
pub fn log1mexp(w: f64) -> f64 {
    if w > -LN_2 { (-w.exp_m1()).ln() } else { (-w.exp()).ln_1p() }
}

/// `ln phi(z)`.
pub fn log_density(z: f64) -> f64 {
    -0.5 * z * z - LN_SQRT_2PI
}

/// `Phi(z)`; underflows to 0 below about -38.
pub fn distribution(z: f64) -> f64 {
    0.5 * erfc(-z * FRAC_1_SQRT_2)
}

/// `ln Phi(z)`, accurate in both tails.
pub fn log_distribution(z: f64) -> f64 {
    if z > 0.0 {
        (-0.5 * erfc(z * FRAC_1_SQRT_2)).ln_1p()
    } else if z > -5.0 {
        distribution(z).ln()
    } else {
        -0.5 * z * z - LN_2 + erfcx(-z * FRAC_1_SQRT_2).ln()
    }
}

/// Derivative of [`log_distribution`], `phi(z) / Phi(z)` (the inverse Mills ratio).
pub fn log_distribution_derivative(z: f64) -> f64 {
    (log_density(z) - log_distribution(z)).exp()
}

/// Quantile `z` with `Phi(z) = p`, for `0 < p < 1`.
pub fn quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, relative: f64) {
        assert!((actual - expected).abs() <= relative * expected.abs(), "{actual:e} is not {expected:e}");
    }

    /// Reference values: mpmath 1.3.0 at 60 digits, `exp(x*x)*erfc(x)`.
    #[test]
    fn erfcx_agrees_with_high_precision_values() {
        for (x, expected) in ERFCX {
            assert_close(erfcx(x), expected, 2e-13);
        }
    }

    /// Reference values: mpmath 1.3.0 at 60 digits, `log(ncdf(z))`.
    #[test]
    fn log_distribution_agrees_with_high_precision_values() {
        for (z, expected) in LOG_DISTRIBUTION {
            assert_close(log_distribution(z), expected, 1e-13);
        }
    }

    #[test]
    fn log_distribution_derivative_matches_differences() {
        for z in [-40.0, -6.0, -1.0, 0.3, 3.0] {
            let h = 1e-5;
            let slope = (log_distribution(z + h) - log_distribution(z - h)) / (2.0 * h);
            assert_close(log_distribution_derivative(z), slope, 1e-6);
        }
    }

    #[test]
    fn quantile_inverts_the_distribution() {
        for p in [1e-9, 0.01, 0.3, 0.5, 0.999] {
            assert_close(distribution(quantile(p)), p, 1e-9);
        }
    }

    #[test]
    fn log1mexp_is_accurate_on_both_sides_of_its_switch() {
        assert_close(log1mexp(-1e-10), (1e-10_f64).ln() - 0.5e-10, 1e-14);
        assert_close(log1mexp(-50.0), -(-50.0_f64).exp(), 1e-14);
        assert_close(log1mexp(-LN_2 * (1.0 + 1e-12)), log1mexp(-LN_2 * (1.0 - 1e-12)), 1e-11);
    }

    const ERFCX: [(f64, f64); 7] = [
        (-3.0, 16205.988853999586),
        (0.0, 1.0),
        (0.5, 0.6156903441929259),
        (5.0, 0.11070463773306863),
        (24.5, 0.023009011874778183),
        (25.5, 0.022108108052519827),
        (10000.0, 5.641895807268084e-05),
    ];

    const LOG_DISTRIBUTION: [(f64, f64); 8] = [
        (-10000.0, -50000010.12927891),
        (-40.0, -804.6084420137538),
        (-5.5, -17.77937635262526),
        (-4.5, -12.59241973571308),
        (-1.0, -1.8410216450092636),
        (0.5, -0.3689464152886564),
        (3.0, -0.0013508099647481938),
        (8.0, -6.220960574271786e-16),
    ];
}
