//! The covariance function.
//!
//! `k(u, u') = s2 m(r2) + s_lin (1/4 + v.v')` with
//! `r2 = sum_ordered ((u_j - u'_j) / l_j)^2 + sum_categorical [c_j != c'_j] / l_j^2`,
//! `m(r2) = (1 + z + z^2/3) e^-z`, `z = sqrt(5 r2)` (Matern-5/2; Rasmussen & Williams 2006, equation 4.17), and
//! `v = 2u - 1` over the ordered features.
//!
//! Derivatives are taken by `r2`, where `dm/dr2 = -(5/6)(1 + z) e^-z` is finite at 0; derivatives by `r` are not.
//! The Hamming term for categories is part of the radial distance, as in OSS Vizier and Optuna. The linear term lets
//! the first few points of an axis-aligned design determine a direction; Doumont et al. 2025 argue for it in high dimension.
//!
//! Three richer covariance functions were measured and not adopted, see docs/experiments/005.

use nalgebra::DMatrix;
use pulp::{Simd, WithSimd};

use super::features::Features;
use super::matern::{matern, matern_derivative};
use crate::numerics::elementary::{LANES, add_terms, total, vectorized};
use crate::numerics::padded::PaddedColumns;

/// A kernel with all of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// `1 / l_j^2`, one per feature.
    pub inverse_squared_lengthscales: Vec<f64>,
    /// Whether feature j is categorical (a level index) or ordered (in `[0, 1]`).
    pub categorical: Vec<bool>,
    /// `s2`, the variance of the radial part.
    pub radial_variance: f64,
    /// `s_lin`, the variance of the linear part.
    pub linear_variance: f64,
}

/// Number of covariances per loop: large enough that loop ends cost little, small enough for the first-level cache.
const TOGETHER: usize = 512;

impl Kernel {
    /// The covariance between the rows of `a` (n x d) and the rows of `b` (m x d): n x m.
    pub fn cross(&self, a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
        let mut result = DMatrix::zeros(a.nrows(), b.nrows());
        vectorized(Cross { kernel: self, a, b, result: &mut result });
        result
    }

    /// `k(u, u)` of each row of `points` (m x d).
    pub fn variances(&self, points: &DMatrix<f64>) -> Vec<f64> {
        points.row_iter().map(|row| self.variance(row.iter().copied())).collect()
    }

    fn variance(&self, point: impl Iterator<Item = f64>) -> f64 {
        let linear: f64 = point
            .zip(&self.categorical)
            .filter(|(_, categorical)| !**categorical)
            .map(|(u, _)| (2.0 * u - 1.0) * (2.0 * u - 1.0))
            .sum();
        self.radial_variance + self.linear_variance * (0.25 + linear)
    }

    /// The gradients by the points `u_p`, rows of `points` (m x d), of
    /// `sum_i coefficients_ip k(x_i, u_p) + own_p k(u_p, u_p)`, `x_i` the rows of `x` (n x d) and `coefficients` n x m:
    /// one vector of length d per point. Categorical entries are 0.
    pub fn gradients(
        &self,
        x: &DMatrix<f64>,
        coefficients: &DMatrix<f64>,
        own: &[f64],
        points: &DMatrix<f64>,
    ) -> Vec<Vec<f64>> {
        vectorized(Gradients { kernel: self, x, coefficients, own, points })
    }
}

struct Cross<'a> {
    kernel: &'a Kernel,
    a: &'a DMatrix<f64>,
    b: &'a DMatrix<f64>,
    /// n x m.
    result: &'a mut DMatrix<f64>,
}

impl WithSimd for Cross<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { kernel, a, b, result } = self;
        if a.nrows() == 0 {
            return;
        }
        let features = Features::new(a, &kernel.categorical);
        let per_point = features.points().div_ceil(LANES);
        let together = (TOGETHER / LANES / per_point).max(1);
        let mut center = vec![0.0; b.ncols()];
        let mut radial = vec![[0.0; LANES]; together * per_point];
        let mut linear = radial.clone();
        let groups = result.as_mut_slice().chunks_mut(together * features.points());
        for (group, targets) in groups.enumerate() {
            let targets = targets.chunks_exact_mut(features.points());
            let used = targets.len() * per_point;
            let pairs = radial.chunks_exact_mut(per_point).zip(linear.chunks_exact_mut(per_point));
            for (row, (radial, linear)) in pairs.enumerate().take(targets.len()) {
                center.iter_mut().zip(&b.row(group * together + row)).for_each(|(u, value)| *u = *value);
                features.squared_distances(simd, 0, &center, &kernel.inverse_squared_lengthscales, radial);
                if kernel.linear_variance != 0.0 {
                    features.products(simd, 0, &center, linear);
                }
            }
            let linear = linear[..used].as_flattened();
            for (value, linear) in radial[..used].as_flattened_mut().iter_mut().zip(linear) {
                *value = kernel.radial_variance * matern(*value) + kernel.linear_variance * linear;
            }
            for (target, values) in targets.zip(radial.chunks_exact(per_point)) {
                target.copy_from_slice(&values.as_flattened()[..target.len()]);
            }
        }
    }
}

struct Gradients<'a> {
    kernel: &'a Kernel,
    x: &'a DMatrix<f64>,
    coefficients: &'a DMatrix<f64>,
    own: &'a [f64],
    points: &'a DMatrix<f64>,
}

impl WithSimd for Gradients<'_> {
    type Output = Vec<Vec<f64>>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<Vec<f64>> {
        let Self { kernel, x, coefficients, own, points } = self;
        let features = Features::new(x, &kernel.categorical);
        let coefficients = PaddedColumns::new(coefficients.as_view());
        let [one, two] = [1.0, 2.0].map(|value| simd.splat_f64s(value));
        let mut weights = vec![[0.0; LANES]; features.points().div_ceil(LANES)];
        let mut center = vec![0.0; points.ncols()];
        let mut gradients = Vec::with_capacity(points.nrows());
        for (row, own) in own.iter().enumerate() {
            center.iter_mut().zip(&points.row(row)).for_each(|(u, value)| *u = *value);
            let coefficients = coefficients.blocks(0, row);
            features.squared_distances(simd, 0, &center, &kernel.inverse_squared_lengthscales, &mut weights);
            for (weight, coefficient) in weights.as_flattened_mut().iter_mut().zip(coefficients.as_flattened()) {
                *weight = coefficient * 2.0 * kernel.radial_variance * matern_derivative(*weight);
            }
            let mut gradient = vec![0.0; center.len()];
            for (j, entry) in gradient.iter_mut().enumerate().filter(|(j, _)| !kernel.categorical[*j]) {
                let (feature, u) = (features.blocks(0, j), simd.splat_f64s(center[j]));
                let mut parts = [0.0; LANES];
                add_terms(simd, &mut parts, feature, &weights, |other, weight| {
                    simd.mul_f64s(weight, simd.sub_f64s(u, other))
                });
                *entry = total(parts) * kernel.inverse_squared_lengthscales[j];
                if kernel.linear_variance != 0.0 {
                    let mut parts = [0.0; LANES];
                    add_terms(simd, &mut parts, feature, coefficients, |other, weight| {
                        simd.mul_f64s(weight, simd.sub_f64s(simd.mul_f64s(two, other), one))
                    });
                    *entry += kernel.linear_variance * (2.0 * total(parts) + own * 4.0 * (2.0 * center[j] - 1.0));
                }
            }
            gradients.push(gradient);
        }
        gradients
    }
}
