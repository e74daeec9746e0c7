//! The radial part of the covariance for whole columns: squared distances and the Matern-5/2 function of them.
//!
//! Everything is `#[inline(always)]`, for [`crate::numerics::elementary::vectorized`]. Distances are summed feature by
//! feature, not taken from a product of matrices (`|x|^2 + |x'|^2 - 2 x x'`): for the few features of a tuning
//! problem the exponential costs more than they do, and nothing cancels.

use crate::numerics::elementary::exp;

/// `m(r2)`.
#[inline(always)]
pub(super) fn matern(squared_distance: f64) -> f64 {
    let z = (5.0 * squared_distance).sqrt();
    (1.0 + z + z * z * (1.0 / 3.0)) * exp(-z)
}

/// `dm/dr2`.
#[inline(always)]
pub(super) fn matern_derivative(squared_distance: f64) -> f64 {
    let z = (5.0 * squared_distance).sqrt();
    -(5.0 / 6.0) * (1.0 + z) * exp(-z)
}

/// `m` and `dm/dr2`.
#[inline(always)]
pub(super) fn matern_with_derivative(squared_distance: f64) -> (f64, f64) {
    let z = (5.0 * squared_distance).sqrt();
    let decay = exp(-z);
    ((1.0 + z + z * z * (1.0 / 3.0)) * decay, -(5.0 / 6.0) * (1.0 + z) * decay)
}

/// Adds `(u - center)^2 scale`, or `[u != center] scale` for a category, for each `u` of `feature`.
#[inline(always)]
pub(super) fn add_squared_distances(target: &mut [f64], feature: &[f64], center: f64, scale: f64, categorical: bool) {
    if categorical {
        for (sum, u) in target.iter_mut().zip(feature) {
            // Level indices are small whole numbers, exactly represented.
            *sum += if *u == center { 0.0 } else { scale };
        }
    } else {
        for (sum, u) in target.iter_mut().zip(feature) {
            *sum += (u - center) * (u - center) * scale;
        }
    }
}

/// Adds `v(center) v(u)`, `v = 2u - 1`, for each `u` of `feature`.
#[inline(always)]
pub(super) fn add_products(target: &mut [f64], feature: &[f64], center: f64) {
    let v = 2.0 * center - 1.0;
    for (sum, u) in target.iter_mut().zip(feature) {
        *sum += v * (2.0 * u - 1.0);
    }
}
