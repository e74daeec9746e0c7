//! Maximum a posteriori hyperparameters.
//!
//! Loss `J(t) = 0.5 y'a + sum ln L_ii - ln prior(t)`. With `G = a a' - inv(K)`:
//! `dJ/d ln l_j = sum_ik G_ik s2 m'(r2_ik) D_j(i, k) / l_j^2` (`D_j` squared difference, or mismatch of categories),
//! `dJ/d ln s2 = -0.5 sum G_ik s2 m_ik`, `dJ/d ln nz = -0.5 nz sum w_i G_ii`,
//! `dJ/d ln s_lin = -0.5 sum G_ik s_lin (1/4 + v_i.v_k)` (Rasmussen & Williams 2006, equation 5.9).

use nalgebra::{DMatrix, DVector};

use super::hyperparameters::{Hyperparameters, KernelTerms, add_negative_log_prior, has_linear_term};
use super::kernel::{add_squared_distances, matern, matern_derivative};
use crate::numerics::triangular::InverseFactor;
use crate::optimizers::{Evaluation, Objective, ProjectedLbfgs, minimize};

/// Batches of evaluations per fit: enough for convergence from the default start in most fits.
const MAX_ROUNDS: u64 = 50;
/// Up to this many observations a second start is affordable and the likelihood often has two modes.
const TWO_STARTS_UP_TO: usize = 64;
/// Jitter tried on the diagonal, relative to its mean.
const JITTERS: [f64; 8] = [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// What a model is fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSet {
    /// `X`, n x d: ordered features in `[0, 1]`, categories as level indices.
    pub points: DMatrix<f64>,
    /// `y`, length n, finite, about zero mean and unit scale.
    pub values: Vec<f64>,
    /// `w`, length n: the noise variance of observation i is `w_i nz`. 1 / count for a mean of replicates.
    pub noise_weights: Vec<f64>,
    /// Which features are categories, length d.
    pub categorical: Vec<bool>,
}

impl TrainingSet {
    /// The observations at `indices`, in that order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            points: self.points.select_rows(indices),
            values: indices.iter().map(|&index| self.values[index]).collect(),
            noise_weights: indices.iter().map(|&index| self.noise_weights[index]).collect(),
            categorical: self.categorical.clone(),
        }
    }
}

/// The hyperparameters of largest posterior density that the search finds; the default ones if none can be evaluated
/// (and for an empty set, where the priors alone decide).
pub fn fit(data: &TrainingSet) -> Hyperparameters {
    fit_with_terms(data, KernelTerms::default())
}

/// As [`fit`], for a covariance of these terms.
pub fn fit_with_terms(data: &TrainingSet, terms: KernelTerms) -> Hyperparameters {
    let default = || Hyperparameters::default_with_terms(&data.categorical, terms);
    if data.values.is_empty() {
        return default();
    }
    let mut starts = vec![Hyperparameters::start(&data.categorical, terms, 1.0, 1e-3)];
    if data.values.len() <= TWO_STARTS_UP_TO {
        // Smooth and noisier: the other explanation that data often allow.
        starts.push(Hyperparameters::start(&data.categorical, terms, 4.0, 1e-2));
    }
    let (lower, upper) = Hyperparameters::bounds(&data.categorical, terms);
    let solver = ProjectedLbfgs::new(lower, upper, &starts, 0.7, 1e-3, 1e-6);
    let results = minimize(Loss::new(data), solver, MAX_ROUNDS);
    match results.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((t, cost)) if cost.is_finite() => Hyperparameters::from_logs(&t, &data.categorical),
        _ => default(),
    }
}

/// `J(t)` and its gradient; `None` if `K` cannot be factorised. `t` as in the module on hyperparameters.
pub fn negative_log_posterior(data: &TrainingSet, t: &[f64]) -> Option<(f64, Vec<f64>)> {
    Loss::new(data).evaluate_one(t)
}

/// Factorises `covariance + diag(noise)`, with more and more jitter where that fails.
pub(super) fn factorize(mut covariance: DMatrix<f64>, noise: impl Iterator<Item = f64>) -> Option<InverseFactor> {
    for (index, variance) in noise.enumerate() {
        covariance[(index, index)] += variance;
    }
    let mean_diagonal = covariance.trace() / covariance.nrows().max(1) as f64;
    if !mean_diagonal.is_finite() {
        return None;
    }
    JITTERS.iter().find_map(|jitter| {
        let mut jittered = covariance.clone();
        for index in 0..jittered.nrows() {
            jittered[(index, index)] += jitter * mean_diagonal;
        }
        InverseFactor::new(jittered)
    })
}

struct Loss<'a> {
    data: &'a TrainingSet,
    values: DVector<f64>,
    /// `1/4 + v_i.v_k`, n x n; the lower triangle is used.
    linear: DMatrix<f64>,
}

impl<'a> Loss<'a> {
    fn new(data: &'a TrainingSet) -> Self {
        let n = data.values.len();
        let ordered: Vec<usize> = (0..data.categorical.len()).filter(|&j| !data.categorical[j]).collect();
        let centered = data.points.select_columns(&ordered).map(|u| 2.0 * u - 1.0);
        let linear = if has_linear_term(&data.categorical) {
            (&centered * centered.transpose()).add_scalar(0.25)
        } else {
            DMatrix::zeros(n, n)
        };
        Self { data, values: DVector::from_column_slice(&data.values), linear }
    }

    fn feature(&self, j: usize) -> &[f64] {
        let n = self.data.points.nrows();
        &self.data.points.as_slice()[j * n..(j + 1) * n]
    }

    fn evaluate_one(&self, t: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (n, d) = self.data.points.shape();
        let model = Hyperparameters::from_logs(t, &self.data.categorical);
        let kernel = &model.kernel;
        // Squared distances and covariances, lower triangle only.
        let mut distances = DMatrix::zeros(n, n);
        let mut covariance = DMatrix::zeros(n, n);
        for k in 0..n {
            let column = &mut distances.as_mut_slice()[k * n + k..(k + 1) * n];
            for (j, &scale) in kernel.inverse_squared_lengthscales.iter().enumerate() {
                let feature = self.feature(j);
                add_squared_distances(column, &feature[k..], feature[k], scale, kernel.categorical[j]);
            }
            for i in k..n {
                covariance[(i, k)] =
                    kernel.radial_variance * matern(distances[(i, k)]) + kernel.linear_variance * self.linear[(i, k)];
            }
        }
        let weights = &self.data.noise_weights;
        let factor = factorize(covariance.clone(), weights.iter().map(|weight| weight * model.noise_variance))?;
        let whitened = &factor.inverse * &self.values;
        let solved = factor.inverse.tr_mul(&whitened);

        let mut gradient = vec![0.0; t.len()];
        let inverse = factor.inverse();
        let mut slopes = vec![0.0; n];
        let (mut radial, mut linear, mut noise) = (0.0, 0.0, 0.0);
        for k in 0..n {
            for i in k..n {
                let g = solved[i] * solved[k] - inverse[(i, k)];
                let both = if i == k { 1.0 } else { 2.0 };
                let linear_part = kernel.linear_variance * self.linear[(i, k)];
                linear += both * g * linear_part;
                radial += both * g * (covariance[(i, k)] - linear_part);
                slopes[i] =
                    if i == k { 0.0 } else { both * g * kernel.radial_variance * matern_derivative(distances[(i, k)]) };
            }
            noise += weights[k] * (solved[k] * solved[k] - inverse[(k, k)]);
            for (j, entry) in gradient.iter_mut().enumerate().take(d) {
                let feature = &self.feature(j)[k..];
                let sum: f64 = if kernel.categorical[j] {
                    feature.iter().zip(&slopes[k..]).filter(|(u, _)| **u != feature[0]).map(|(_, slope)| slope).sum()
                } else {
                    feature.iter().zip(&slopes[k..]).map(|(u, slope)| slope * (u - feature[0]) * (u - feature[0])).sum()
                };
                *entry += sum * kernel.inverse_squared_lengthscales[j];
            }
        }
        gradient[d] = -0.5 * radial;
        gradient[d + 1] = -0.5 * model.noise_variance * noise;
        if t.len() > d + 2 {
            gradient[d + 2] = -0.5 * linear;
        }
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
