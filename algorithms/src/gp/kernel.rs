//! Covariance function.
//!
//! `k(u, u') = s2 m(r2) + s_lin (1/4 + v.v')` with `r2 = sum_ordered ((u_j - u'_j) / l_j)^2 + sum_categorical [c_j !=
//! c'_j] / l_j^2`, `m(r2) = (1 + z + z^2/3) e^-z`, `z = sqrt(5 r2)` (Matern-5/2; Rasmussen & Williams 2006, equation
//! 4.17), and `v = 2u - 1` over the ordered features.
//!
//! Derivatives are by `r2`, where `dm/dr2 = -(5/6)(1 + z) e^-z` is finite at 0; derivatives by `r` are not. The Hamming
//! term for categories is part of the radial distance, as in OSS Vizier and Optuna. The linear term lets the first few
//! points of an axis-aligned design determine a direction; Doumont et al. 2025 argue for it in high dimension.
//!
//! Three richer covariance functions were measured and rejected, see docs/experiments/005.

use nalgebra::DMatrix;
use pulp::{Simd, WithSimd};

use super::features::{CENTERS, Features};
use super::matern::{matern, matern_derivative};
use crate::numerics::elementary::{Block, LANES, total, vectorized};
use crate::numerics::padded::PaddedColumns;

/// Kernel with all its parameters.
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

impl Kernel {
    /// Covariance between the rows of `a` (n x d) and the rows of `b` (m x d): n x m.
    pub fn cross(&self, a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
        let mut result = DMatrix::zeros(a.nrows(), b.nrows());
        vectorized(Cross { kernel: self, a, b, lower: false, result: &mut result });
        result
    }

    /// Sets the lower triangle of `result` (n x n) to the covariance between the rows of `points` (n x d); the rest is
    /// unspecified.
    pub(super) fn lower_covariance(&self, points: &DMatrix<f64>, result: &mut DMatrix<f64>) {
        vectorized(Cross { kernel: self, a: points, b: points, lower: true, result });
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

    /// Gradients by the points `u_p`, rows of `points` (m x d), of `sum_i coefficients_ip k(x_i, u_p) + own_p k(u_p,
    /// u_p)`, `x_i` the rows of `x` (n x d) and `coefficients` n x m: one vector of length d per point. Categorical
    /// entries are 0.
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
    /// Whether only the lower triangle is needed.
    lower: bool,
    /// n x m.
    result: &'a mut DMatrix<f64>,
}

impl WithSimd for Cross<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { kernel, a, b, lower, result } = self;
        if a.nrows() == 0 {
            return;
        }
        let features = Features::new(a, &kernel.categorical);
        let mut columns = Columns::new(kernel, &features);
        for (group, targets) in result.as_mut_slice().chunks_mut(CENTERS * a.nrows()).enumerate() {
            let i = group * CENTERS;
            let first = if lower { i / LANES } else { 0 };
            if targets.len() == a.nrows() {
                columns.write::<S, 1>(simd, first, b, i, targets);
            } else {
                columns.write::<S, CENTERS>(simd, first, b, i, targets);
            }
        }
    }
}

struct Columns<'a> {
    kernel: &'a Kernel,
    features: &'a Features<'a>,
    radial: Vec<Block>,
    linear: Vec<Block>,
}

impl<'a> Columns<'a> {
    fn new(kernel: &'a Kernel, features: &'a Features<'a>) -> Self {
        let radial = vec![[0.0; LANES]; CENTERS * features.blocks()];
        Self { kernel, features, linear: radial.clone(), radial }
    }

    /// Writes the covariances of the features from block `first` on with up to C of the rows of `b` from `i` on into
    /// `targets`, column by column.
    #[inline(always)]
    fn write<S: Simd, const C: usize>(
        &mut self,
        simd: S,
        first: usize,
        b: &DMatrix<f64>,
        i: usize,
        targets: &mut [f64],
    ) {
        let Self { kernel, features, radial, linear } = self;
        let per_center = features.blocks() - first;
        let (radial, linear) = (&mut radial[..C * per_center], &mut linear[..C * per_center]);
        let centers = points::<C>(b, i);
        features.squared_distances(simd, first, &centers, &kernel.inverse_squared_lengthscales, radial);
        if kernel.linear_variance != 0.0 {
            features.products(simd, first, &centers, linear);
        }
        for (value, linear) in radial.as_flattened_mut().iter_mut().zip(linear.as_flattened()) {
            *value = kernel.radial_variance * matern(*value) + kernel.linear_variance * linear;
        }
        for (target, values) in targets.chunks_exact_mut(features.points()).zip(radial.chunks_exact(per_center)) {
            let target = &mut target[first * LANES..];
            target.copy_from_slice(&values.as_flattened()[..target.len()]);
        }
    }
}

/// Rows of `points` from `i` on by feature; repeats the last row where there are fewer than C.
#[inline(always)]
fn points<const C: usize>(points: &DMatrix<f64>, i: usize) -> Vec<[f64; C]> {
    let row = |c: usize| (i + c).min(points.nrows() - 1);
    (0..points.ncols()).map(|j| std::array::from_fn(|c| points[(row(c), j)])).collect()
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
        let Self { kernel, x, coefficients, own, points: all } = self;
        let features = Features::new(x, &kernel.categorical);
        let coefficients = PaddedColumns::new(coefficients.as_view());
        let per_center = features.blocks();
        let mut weights = vec![[0.0; LANES]; CENTERS * per_center];
        let mut gradients = Vec::with_capacity(all.nrows());
        for i in (0..all.nrows()).step_by(CENTERS) {
            let scales = &kernel.inverse_squared_lengthscales;
            if i + 1 == all.nrows() {
                features.squared_distances(simd, 0, &points::<1>(all, i), scales, &mut weights[..per_center]);
            } else {
                features.squared_distances(simd, 0, &points::<CENTERS>(all, i), scales, &mut weights);
            }
            for (row, weights) in (i..all.nrows()).zip(weights.chunks_exact_mut(per_center.max(1))) {
                let coefficients = coefficients.blocks(0, row);
                for (weight, coefficient) in weights.as_flattened_mut().iter_mut().zip(coefficients.as_flattened()) {
                    *weight = coefficient * 2.0 * kernel.radial_variance * matern_derivative(*weight);
                }
                let center: Vec<f64> = all.row(row).iter().copied().collect();
                let mut by_radial = vec![[0.0; LANES]; center.len()];
                let mut by_linear = by_radial.clone();
                let parts = (&mut by_radial, &mut by_linear);
                features.add_weighted_differences(simd, &center, weights, coefficients, parts.0, parts.1);
                let entry = |(j, u): (usize, &f64)| {
                    if kernel.categorical[j] {
                        return 0.0;
                    }
                    let linear = 2.0 * total(by_linear[j]) + own[row] * 4.0 * (2.0 * u - 1.0);
                    total(by_radial[j]) * scales[j] + kernel.linear_variance * linear
                };
                gradients.push(center.iter().enumerate().map(entry).collect());
            }
        }
        gradients
    }
}
