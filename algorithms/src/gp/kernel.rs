//! The covariance function.
//!
//! `k(u, u') = s2 m(r2) + s_lin (1/4 + v.v')` with
//! `r2 = sum_ordered ((u_j - u'_j) / l_j)^2 + sum_categorical [c_j != c'_j] / l_j^2`,
//! `m(r2) = (1 + z + z^2/3) e^-z`, `z = sqrt(5 r2)` (Matern-5/2; Rasmussen & Williams 2006, equation 4.17), and
//! `v = 2u - 1` over the ordered features.
//!
//! Derivatives go through `r2`, where `dm/dr2 = -(5/6)(1 + z) e^-z` is finite at 0; through `r` they are not.
//! The Hamming term for categories sits inside the radial distance, as in OSS Vizier and Optuna. The linear term lets
//! the first few points of an axis-parallel design set a direction; Doumont et al. 2025 argue for it in high dimension.

use nalgebra::DMatrix;

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

impl Kernel {
    /// The covariance between the rows of `a` (n x d) and the rows of `b` (m x d): n x m.
    pub fn cross(&self, a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
        let mut result = DMatrix::zeros(a.nrows(), b.nrows());
        let mut linear = vec![0.0; a.nrows()];
        for column in 0..b.nrows() {
            let target = &mut result.as_mut_slice()[column * a.nrows()..(column + 1) * a.nrows()];
            linear.fill(0.25);
            for (j, &scale) in self.inverse_squared_lengthscales.iter().enumerate() {
                let feature = &a.as_slice()[j * a.nrows()..(j + 1) * a.nrows()];
                add_squared_distances(target, feature, b[(column, j)], scale, self.categorical[j]);
                if !self.categorical[j] {
                    let v = 2.0 * b[(column, j)] - 1.0;
                    for (sum, u) in linear.iter_mut().zip(feature) {
                        *sum += v * (2.0 * u - 1.0);
                    }
                }
            }
            for (value, linear) in target.iter_mut().zip(&linear) {
                *value = self.radial_variance * matern(*value) + self.linear_variance * linear;
            }
        }
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

    /// The gradient by `point` (length d) of `sum_i coefficients_i k(x_i, point) + own k(point, point)`, `x_i` the rows
    /// of `x` (n x d). Categorical entries are 0.
    pub fn gradient(&self, x: &DMatrix<f64>, coefficients: &[f64], own: f64, point: &[f64]) -> Vec<f64> {
        let n = x.nrows();
        let mut weights = vec![0.0; n];
        for (j, &scale) in self.inverse_squared_lengthscales.iter().enumerate() {
            add_squared_distances(
                &mut weights,
                &x.as_slice()[j * n..(j + 1) * n],
                point[j],
                scale,
                self.categorical[j],
            );
        }
        for (weight, coefficient) in weights.iter_mut().zip(coefficients) {
            *weight = coefficient * 2.0 * self.radial_variance * matern_derivative(*weight);
        }
        let one = |j: usize| {
            if self.categorical[j] {
                return 0.0;
            }
            let feature = &x.as_slice()[j * n..(j + 1) * n];
            let (mut radial, mut linear) = (0.0, 0.0);
            for ((u, weight), coefficient) in feature.iter().zip(&weights).zip(coefficients) {
                radial += weight * (point[j] - u);
                linear += coefficient * (2.0 * u - 1.0);
            }
            radial * self.inverse_squared_lengthscales[j]
                + self.linear_variance * (2.0 * linear + own * 4.0 * (2.0 * point[j] - 1.0))
        };
        (0..point.len()).map(one).collect()
    }
}

/// Adds `(u - center)^2 scale`, or `[u != center] scale` for a category, for each `u` of `feature`.
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

/// `m(r2)`.
pub(super) fn matern(squared_distance: f64) -> f64 {
    let z = (5.0 * squared_distance).sqrt();
    (1.0 + z + z * z / 3.0) * (-z).exp()
}

/// `dm/dr2`.
pub(super) fn matern_derivative(squared_distance: f64) -> f64 {
    let z = (5.0 * squared_distance).sqrt();
    -(5.0 / 6.0) * (1.0 + z) * (-z).exp()
}
