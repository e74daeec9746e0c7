//! Matern-5/2 function of squared distances, inlined into vectorised loops.

use crate::numerics::elementary::exp;

/// `m(r2)`.
#[inline(always)]
pub(super) fn matern(squared_distance: f64) -> f64 {
    matern_with_derivative(squared_distance).0
}

/// `dm/dr2`.
#[inline(always)]
pub(super) fn matern_derivative(squared_distance: f64) -> f64 {
    matern_with_derivative(squared_distance).1
}

/// `m` and `dm/dr2`.
#[inline(always)]
pub(super) fn matern_with_derivative(squared_distance: f64) -> (f64, f64) {
    let z = (5.0 * squared_distance).sqrt();
    let decay = exp(-z);
    ((1.0 + z + z * z * (1.0 / 3.0)) * decay, -(5.0 / 6.0) * (1.0 + z) * decay)
}
