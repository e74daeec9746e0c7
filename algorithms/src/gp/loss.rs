//! What a fit minimises: the negative log posterior density of the hyperparameters.
//!
//! `J(t) = 0.5 y'a + sum ln L_ii - ln prior(t)`. With `G = a a' - inv(K)`:
//! `dJ/d ln l_j = sum_ik G_ik s2 m'(r2_ik) D_j(i, k) / l_j^2` (`D_j` squared difference, or mismatch of categories),
//! `dJ/d ln s2 = -0.5 sum G_ik s2 m_ik`, `dJ/d ln nz = -0.5 nz sum w_i G_ii`,
//! `dJ/d ln s_lin = -0.5 sum G_ik s_lin (1/4 + v_i.v_k)` (Rasmussen & Williams 2006, equation 5.9).
//!
//! All matrices are symmetric; only their lower triangles are computed.

use nalgebra::{DMatrix, DVector};
use pulp::{Simd, WithSimd};

use super::fit::TrainingSet;
use super::hyperparameters::{Hyperparameters, add_negative_log_prior, has_linear_term};
use super::kernel::column;
use super::matern::{add_products, add_squared_distances, matern_with_derivative};
use crate::numerics::elementary::{sum, vectorized};
use crate::numerics::triangular::InverseFactor;
use crate::optimizers::{Evaluation, Objective};

/// Jitter tried on the diagonal, relative to its mean.
const JITTERS: [f64; 8] = [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// `J(t)` and its gradient; `None` if `K` cannot be factorised. `t` as in the module on hyperparameters.
pub fn negative_log_posterior(data: &TrainingSet, t: &[f64]) -> Option<(f64, Vec<f64>)> {
    Loss::new(data).evaluate_one(t)
}

/// Factorises `covariance + diag(noise)`, with more and more jitter where that fails.
pub(super) fn factorize(mut covariance: DMatrix<f64>, noise: &[f64]) -> Option<InverseFactor> {
    let n = covariance.nrows();
    for (index, variance) in noise.iter().enumerate() {
        covariance[(index, index)] += variance;
    }
    let mean_diagonal = covariance.trace() / n.max(1) as f64;
    if !mean_diagonal.is_finite() {
        return None;
    }
    JITTERS.iter().find_map(|jitter| {
        let mut jittered = covariance.clone();
        for index in 0..n {
            jittered[(index, index)] += jitter * mean_diagonal;
        }
        InverseFactor::new(jittered)
    })
}

/// `J` for one set of observations.
pub(super) struct Loss<'a> {
    data: &'a TrainingSet,
    values: DVector<f64>,
    /// `1/4 + v_i.v_k`, n x n, lower triangle; empty without ordered features.
    linear: Option<DMatrix<f64>>,
}

impl<'a> Loss<'a> {
    pub(super) fn new(data: &'a TrainingSet) -> Self {
        let linear = has_linear_term(&data.categorical).then(|| vectorized(LinearTerm(data)));
        Self { data, values: DVector::from_column_slice(&data.values), linear }
    }

    fn evaluate_one(&self, t: &[f64]) -> Option<(f64, Vec<f64>)> {
        let d = self.data.points.ncols();
        let model = Hyperparameters::from_logs(t, &self.data.categorical);
        let noise: Vec<f64> = self.data.noise_weights.iter().map(|weight| weight * model.noise_variance).collect();
        let linear = self.linear.as_ref().filter(|_| t.len() > d + 2);
        let Covariances { radial, slopes } = vectorized(RadialTerm { data: self.data, model: &model });
        let mut covariance = radial.clone();
        if let Some(linear) = linear {
            for (sum, linear) in covariance.as_mut_slice().iter_mut().zip(linear.as_slice()) {
                *sum += model.kernel.linear_variance * linear;
            }
        }
        let factor = factorize(covariance, &noise)?;
        let whitened = &factor.inverse * &self.values;
        let solved = factor.inverse.tr_mul(&whitened);
        let inverse = factor.inverse();
        let mut gradient = vec![0.0; t.len()];
        vectorized(Contraction {
            data: self.data,
            model: &model,
            solved: solved.as_slice(),
            inverse,
            radial: &radial,
            slopes: &slopes,
            linear,
            gradient: &mut gradient,
        });
        let prior = add_negative_log_prior(t, d, &mut gradient);
        Some((0.5 * whitened.norm_squared() + factor.half_log_determinant + prior, gradient))
    }
}

impl Objective for Loss<'_> {
    fn evaluate(&self, _runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
        let impossible = || Evaluation { cost: f64::INFINITY, gradient: Vec::new() };
        let evaluation = |t: &Vec<f64>| self.evaluate_one(t).map(|(cost, gradient)| Evaluation { cost, gradient });
        points.iter().map(|t| evaluation(t).unwrap_or_else(impossible)).collect()
    }
}

/// Column `k` of a square matrix from its diagonal down.
#[inline(always)]
fn below(matrix: &DMatrix<f64>, k: usize) -> &[f64] {
    &column(matrix, k)[k..]
}

#[inline(always)]
fn below_mut(matrix: &mut DMatrix<f64>, k: usize) -> &mut [f64] {
    let n = matrix.nrows();
    &mut matrix.as_mut_slice()[k * n + k..(k + 1) * n]
}

struct LinearTerm<'a>(&'a TrainingSet);

impl WithSimd for LinearTerm<'_> {
    type Output = DMatrix<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> DMatrix<f64> {
        let (n, d) = self.0.points.shape();
        let mut linear = DMatrix::zeros(n, n);
        for k in 0..n {
            let target = below_mut(&mut linear, k);
            target.fill(0.25);
            for j in (0..d).filter(|&j| !self.0.categorical[j]) {
                let feature = &column(&self.0.points, j)[k..];
                add_products(target, feature, feature[0]);
            }
        }
        linear
    }
}

/// `s2 m` and `s2 m'`, n x n, lower triangles.
struct Covariances {
    radial: DMatrix<f64>,
    slopes: DMatrix<f64>,
}

struct RadialTerm<'a> {
    data: &'a TrainingSet,
    model: &'a Hyperparameters,
}

impl WithSimd for RadialTerm<'_> {
    type Output = Covariances;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Covariances {
        let n = self.data.points.nrows();
        let kernel = &self.model.kernel;
        let (mut radial, mut slopes) = (DMatrix::zeros(n, n), DMatrix::zeros(n, n));
        for k in 0..n {
            let radial = below_mut(&mut radial, k);
            for (j, &scale) in kernel.inverse_squared_lengthscales.iter().enumerate() {
                let feature = &column(&self.data.points, j)[k..];
                add_squared_distances(radial, feature, feature[0], scale, kernel.categorical[j]);
            }
            for (value, slope) in radial.iter_mut().zip(below_mut(&mut slopes, k)) {
                let (m, derivative) = matern_with_derivative(*value);
                *value = kernel.radial_variance * m;
                *slope = kernel.radial_variance * derivative;
            }
        }
        Covariances { radial, slopes }
    }
}

struct Contraction<'a> {
    data: &'a TrainingSet,
    model: &'a Hyperparameters,
    /// `a`.
    solved: &'a [f64],
    /// `inv(K)`, lower triangle; it is overwritten.
    inverse: DMatrix<f64>,
    radial: &'a DMatrix<f64>,
    slopes: &'a DMatrix<f64>,
    linear: Option<&'a DMatrix<f64>>,
    /// In the order of `t`, zeros.
    gradient: &'a mut [f64],
}

impl WithSimd for Contraction<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { data, model, solved, mut inverse, radial, slopes, linear, gradient } = self;
        let (n, d) = data.points.shape();
        let kernel = &model.kernel;
        let (mut by_radial, mut by_linear, mut by_noise) = (0.0, 0.0, 0.0);
        for k in 0..n {
            // G, with the weight of both triangles.
            let weights = below_mut(&mut inverse, k);
            let own = solved[k];
            for (weight, other) in weights.iter_mut().zip(&solved[k..]) {
                *weight = 2.0 * (own * other - *weight);
            }
            weights[0] *= 0.5;
            by_noise += data.noise_weights[k] * weights[0];
            by_radial += sum(weights, below(radial, k), |weight, radial| weight * radial);
            if let Some(linear) = linear {
                by_linear += sum(weights, below(linear, k), |weight, linear| weight * linear);
            }
            for (weight, slope) in weights.iter_mut().zip(below(slopes, k)) {
                *weight *= slope;
            }
            for (j, entry) in gradient.iter_mut().enumerate().take(d) {
                let feature = &column(&data.points, j)[k..];
                let center = feature[0];
                let part = if kernel.categorical[j] {
                    sum(feature, weights, |u, weight| if u == center { 0.0 } else { weight })
                } else {
                    sum(feature, weights, |u, weight| weight * (u - center) * (u - center))
                };
                *entry += part * kernel.inverse_squared_lengthscales[j];
            }
        }
        gradient[d] = -0.5 * by_radial;
        gradient[d + 1] = -0.5 * model.noise_variance * by_noise;
        if linear.is_some() {
            gradient[d + 2] = -0.5 * kernel.linear_variance * by_linear;
        }
    }
}
