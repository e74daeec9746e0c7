//! Loss of a fit: the negative log posterior density of the hyperparameters.
//!
//! `J(t) = 0.5 y'a + sum ln L_ii - ln prior(t)`. With `G = a a' - inv(K)`: `dJ/d ln l_j = sum_ik G_ik s2 m'(r2_ik)
//! D_j(i, k) / l_j^2` (`D_j` squared difference, or mismatch of categories), `dJ/d ln s2 = -0.5 sum G_ik s2 m_ik`,
//! `dJ/d ln nz = -0.5 nz sum w_i G_ii`, `dJ/d ln s_lin = -0.5 sum G_ik s_lin (1/4 + v_i.v_k)` (Rasmussen & Williams
//! 2006, equation 5.9).
//!
//! All matrices are symmetric; only their lower triangles are computed.

use std::iter::repeat_with;
use std::panic::resume_unwind;
use std::thread;

use nalgebra::{DMatrix, DVector};
use parking_lot::Mutex;
use pulp::{Simd, WithSimd};

use super::features::{CENTERS, Features};
use super::hyperparameters::{Hyperparameters, add_negative_log_prior, has_linear_term, noise_log_priors};
use super::matern::matern_with_derivative;
use super::training_set::TrainingSet;
use crate::numerics::elementary::{LANES, add_terms, total, vectorized};
use crate::numerics::lbfgs::{Evaluation, Objective};
use crate::numerics::lower_blocks::LowerBlocks;
use crate::numerics::triangular::InverseFactor;

/// Jitter to try on the diagonal, relative to its mean.
const JITTERS: [f64; 8] = [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// Number of observations from which each point of a round gets its own thread (a guess: an evaluation should take much
/// longer than the start of a thread).
const PARALLEL_FROM: usize = 128;

/// `J(t)` and its gradient; `None` if `K` cannot be factorised. `t` is described in the module `hyperparameters`.
pub fn negative_log_posterior(data: &TrainingSet, t: &[f64]) -> Option<(f64, Vec<f64>)> {
    Loss::new(data).evaluate_one(t, &mut Workspace::new(data.values.len()))
}

/// Factorises `covariance + diag(noise)` into `factor`, with increasing jitter until it succeeds; false if all attempts
/// fail. `covariance` writes its lower triangle into `matrix` (n x n) before each attempt, which destroys it.
pub(super) fn factorize(
    factor: &mut InverseFactor,
    matrix: &mut DMatrix<f64>,
    noise: &[f64],
    mut covariance: impl FnMut(&mut DMatrix<f64>),
) -> bool {
    for jitter in JITTERS {
        covariance(matrix);
        for (index, variance) in noise.iter().enumerate() {
            matrix[(index, index)] += variance;
        }
        let mean_diagonal = matrix.trace() / noise.len().max(1) as f64;
        if !mean_diagonal.is_finite() {
            return false;
        }
        for index in 0..noise.len() {
            matrix[(index, index)] += jitter * mean_diagonal;
        }
        if factor.replace(matrix) {
            return true;
        }
    }
    false
}

/// `J` for one set of observations.
pub(super) struct Loss<'a> {
    data: &'a TrainingSet,
    features: Features<'a>,
    values: DVector<f64>,
    /// `1/4 + v_i.v_k`, lower triangle; `None` without ordered features.
    linear: Option<LowerBlocks>,
    /// One per concurrently evaluated point.
    workspaces: Mutex<Vec<Workspace>>,
}

/// Matrices of one evaluation, reused throughout a fit: allocating megabytes costs as much as half of the products
/// (measured, see docs/experiments/018).
struct Workspace {
    /// `s2 m`, with padding that no result depends on.
    radial: LowerBlocks,
    /// `s2 m'`, with the same padding.
    slopes: LowerBlocks,
    /// Weights of pairs of points in a gradient, zero in the padding.
    weights: LowerBlocks,
    /// The covariance, later `inv(K)`; lower triangles.
    matrix: DMatrix<f64>,
    factor: InverseFactor,
}

impl Workspace {
    fn new(n: usize) -> Self {
        let zeros = || LowerBlocks::zeros(n);
        Self {
            radial: zeros(),
            slopes: zeros(),
            weights: zeros(),
            matrix: DMatrix::zeros(n, n),
            factor: InverseFactor::zeros(n),
        }
    }
}

impl<'a> Loss<'a> {
    pub(super) fn new(data: &'a TrainingSet) -> Self {
        let features = Features::new(&data.points, &data.categorical);
        let linear = has_linear_term(&data.categorical).then(|| vectorized(LinearTerm(&features)));
        let values = DVector::from_column_slice(&data.values);
        Self { data, features, values, linear, workspaces: Mutex::default() }
    }

    fn evaluate_one(&self, t: &[f64], workspace: &mut Workspace) -> Option<(f64, Vec<f64>)> {
        let (data, features) = (self.data, &self.features);
        let d = data.points.ncols();
        let model = Hyperparameters::from_logs(t, &data.categorical);
        let noise = data.noise_variances(model.noise_variance);
        let linear = self.linear.as_ref().filter(|_| t.len() > d + 2);
        let Workspace { radial, slopes, weights, matrix, factor } = workspace;
        vectorized(RadialTerm { features, model: &model, radial, slopes });
        let covariance = |matrix: &mut DMatrix<f64>| {
            vectorized(Covariance { radial, linear, linear_variance: model.kernel.linear_variance, matrix });
        };
        if !factorize(factor, matrix, &noise, covariance) {
            return None;
        }
        let whitened = &factor.inverse * &self.values;
        let solved = factor.inverse.tr_mul(&whitened);
        factor.inverse_into(matrix);
        let mut gradient = vec![0.0; t.len()];
        vectorized(Contraction {
            data,
            features,
            model: &model,
            solved: solved.as_slice(),
            inverse: matrix,
            weights,
            radial,
            slopes,
            linear,
            gradient: &mut gradient,
        });
        let prior = add_negative_log_prior(t, d, noise_log_priors(data), &mut gradient);
        Some((0.5 * whitened.norm_squared() + factor.half_log_determinant + prior, gradient))
    }
}

impl Objective for Loss<'_> {
    fn evaluate(&self, _runs: &[usize], points: &[Vec<f64>]) -> Vec<Evaluation> {
        let n = self.data.values.len();
        let evaluation = |t: &[f64], workspace: &mut Workspace| match self.evaluate_one(t, workspace) {
            Some((cost, gradient)) => Evaluation { cost, gradient },
            None => Evaluation { cost: f64::INFINITY, gradient: Vec::new() },
        };
        let mut workspaces = self.workspaces.lock();
        let threads = if n < PARALLEL_FROM { 1 } else { points.len() };
        let missing = threads.saturating_sub(workspaces.len());
        workspaces.extend(repeat_with(|| Workspace::new(n)).take(missing));
        let Some((own, others)) = workspaces.split_first_mut() else { return Vec::new() };
        let mut others = others.iter_mut();
        thread::scope(|scope| {
            let start = |t, workspace| thread::Builder::new().spawn_scoped(scope, move || evaluation(t, workspace));
            let started: Vec<_> =
                points.iter().skip(1).map(|t| others.next().and_then(|workspace| start(t, workspace).ok())).collect();
            let first = points.first().map(|t| evaluation(t, own));
            let further = points.iter().skip(1).zip(started).map(|(t, thread)| match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => evaluation(t, own),
            });
            first.into_iter().chain(further).collect()
        })
    }
}

struct LinearTerm<'a>(&'a Features<'a>);

impl WithSimd for LinearTerm<'_> {
    type Output = LowerBlocks;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> LowerBlocks {
        let mut linear = LowerBlocks::zeros(self.0.points());
        let mut centers = vec![[0.0; CENTERS]; self.0.count()];
        for k in (0..linear.padded_columns()).step_by(CENTERS) {
            self.0.copy_points(k, &mut centers);
            self.0.products(simd, LowerBlocks::first_block(k), &centers, linear.columns_mut(k, CENTERS));
        }
        linear
    }
}

struct RadialTerm<'a> {
    features: &'a Features<'a>,
    model: &'a Hyperparameters,
    /// Overwritten.
    radial: &'a mut LowerBlocks,
    /// Overwritten.
    slopes: &'a mut LowerBlocks,
}

impl WithSimd for RadialTerm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { features, model: Hyperparameters { kernel, .. }, radial, slopes } = self;
        let mut centers = vec![[0.0; CENTERS]; features.count()];
        for k in (0..radial.padded_columns()).step_by(CENTERS) {
            features.copy_points(k, &mut centers);
            let (radial, first) = (radial.columns_mut(k, CENTERS), LowerBlocks::first_block(k));
            features.squared_distances(simd, first, &centers, &kernel.inverse_squared_lengthscales, radial);
            let slopes = slopes.columns_mut(k, CENTERS).as_flattened_mut();
            for (value, slope) in radial.as_flattened_mut().iter_mut().zip(slopes) {
                let (m, derivative) = matern_with_derivative(*value);
                *value = kernel.radial_variance * m;
                *slope = kernel.radial_variance * derivative;
            }
        }
    }
}

struct Covariance<'a> {
    radial: &'a LowerBlocks,
    linear: Option<&'a LowerBlocks>,
    linear_variance: f64,
    /// n x n; its lower triangle is overwritten.
    matrix: &'a mut DMatrix<f64>,
}

impl WithSimd for Covariance<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { radial, linear, linear_variance, matrix } = self;
        let n = matrix.nrows();
        for (k, column) in matrix.as_mut_slice().chunks_exact_mut(n.max(1)).enumerate() {
            let below = &mut column[k..];
            let radial = &radial.column(k).as_flattened()[k % LANES..];
            match linear {
                Some(linear) => {
                    let linear = &linear.column(k).as_flattened()[k % LANES..];
                    for ((sum, radial), linear) in below.iter_mut().zip(radial).zip(linear) {
                        *sum = radial + linear_variance * linear;
                    }
                }
                None => below.copy_from_slice(&radial[..n - k]),
            }
        }
    }
}

struct Contraction<'a> {
    data: &'a TrainingSet,
    features: &'a Features<'a>,
    model: &'a Hyperparameters,
    /// `a`.
    solved: &'a [f64],
    /// `inv(K)`, lower triangle.
    inverse: &'a DMatrix<f64>,
    /// Zero in the padding; overwritten.
    weights: &'a mut LowerBlocks,
    radial: &'a LowerBlocks,
    slopes: &'a LowerBlocks,
    linear: Option<&'a LowerBlocks>,
    /// In the order of `t`.
    gradient: &'a mut [f64],
}

impl WithSimd for Contraction<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { data, features, model, solved, inverse, weights, radial, slopes, linear, gradient } = self;
        let (n, d) = data.points.shape();
        let mut by_noise = 0.0;
        for k in 0..n {
            // G, with the weight of both triangles.
            let (own, others) = (solved[k], &solved[k..]);
            let inverse = &inverse.as_slice()[k * n + k..(k + 1) * n];
            let column = &mut weights.column_mut(k).as_flattened_mut()[k % LANES..];
            for ((weight, inverse), other) in column.iter_mut().zip(inverse).zip(others) {
                *weight = 2.0 * (own * other - inverse);
            }
            column[0] *= 0.5;
            by_noise += data.noise_weights[k] * column[0];
        }
        // Partial sums of each entry of the gradient.
        let mut parts = vec![[0.0; LANES]; gradient.len()];
        let product = |a, b| simd.mul_f64s(a, b);
        add_terms(simd, &mut parts[d], weights.blocks(), radial.blocks(), product);
        if let Some(linear) = linear {
            add_terms(simd, &mut parts[d + 2], weights.blocks(), linear.blocks(), product);
        }
        let mut centers = vec![[0.0; CENTERS]; d];
        for k in (0..weights.padded_columns()).step_by(CENTERS) {
            let (columns, slopes) = (weights.columns_mut(k, CENTERS), slopes.columns(k, CENTERS));
            let pairs = columns.as_flattened_mut().iter_mut().zip(slopes.as_flattened());
            pairs.for_each(|(weight, slope)| *weight *= slope);
            features.copy_points(k, &mut centers);
            features.add_weighted_squares(simd, LowerBlocks::first_block(k), &centers, columns, &mut parts[..d]);
        }
        let kernel = &model.kernel;
        for (j, scale) in kernel.inverse_squared_lengthscales.iter().enumerate() {
            gradient[j] = total(parts[j]) * scale;
        }
        gradient[d] = -0.5 * total(parts[d]);
        gradient[d + 1] = -0.5 * model.noise_variance * by_noise;
        if linear.is_some() {
            gradient[d + 2] = -0.5 * kernel.linear_variance * total(parts[d + 2]);
        }
    }
}
