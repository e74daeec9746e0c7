//! The posterior of a fitted model, conditioned on observations and, sample by sample, on fantasies.
//!
//! Notation: `S` sampled worlds (1 without fantasies), `A = inv(K) [y, ...]` (n x S), `k` (n) covariance of a point with
//! the observations, `mu_s = k'A_s`, `s^2 = k(u, u) - |inv(L) k|^2` for the latent function, without noise.
//!
//! A fantasy appends a row to `inv(L)` and, because the new whitened target is the standard normal number that was
//! drawn, a rank-one update to `A`: O(n^2 + n S), whatever the number of pending trials.

use nalgebra::{DMatrix, DVector};

use super::fit::TrainingSet;
use super::hyperparameters::Hyperparameters;
use super::loss::factorize;
use crate::numerics::products::{lower_product, lower_transposed_product, transposed_product};

/// Noise of a fantasised latent value relative to the prior variance: only keeps repeated points apart.
const FANTASY_NOISE: f64 = 1e-6;
/// Smallest posterior variance relative to the prior variance: below it, rounding decides.
const VARIANCE_FLOOR: f64 = 1e-12;

/// A model that can predict.
#[derive(Debug, Clone)]
pub struct Posterior {
    hyperparameters: Hyperparameters,
    points: DMatrix<f64>,
    /// `inv(L)`, n x n.
    inverse_factor: DMatrix<f64>,
    /// `A`, n x S.
    solved: DMatrix<f64>,
}

/// Predictions for m points.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// `mu_s` of each point, S x m.
    pub means: DMatrix<f64>,
    /// `s` of each point, length m, above zero.
    pub deviations: Vec<f64>,
    /// `inv(L) k`, n x m.
    whitened: DMatrix<f64>,
}

impl Posterior {
    /// Conditions the model on `data`; `None` if its covariance cannot be factorised even with jitter.
    pub fn new(hyperparameters: Hyperparameters, data: &TrainingSet) -> Option<Self> {
        let covariance = hyperparameters.kernel.cross(&data.points, &data.points);
        let noise: Vec<f64> = data.noise_weights.iter().map(|weight| weight * hyperparameters.noise_variance).collect();
        let inverse_factor = factorize(covariance, &noise)?.inverse;
        let whitened = &inverse_factor * DVector::from_column_slice(&data.values);
        let solved = DMatrix::from_column_slice(whitened.len(), 1, inverse_factor.tr_mul(&whitened).as_slice());
        Some(Self { hyperparameters, points: data.points.clone(), inverse_factor, solved })
    }

    /// The model.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// `n`, pending trials included.
    pub(super) fn observations(&self) -> usize {
        self.points.nrows()
    }

    /// `S`, the number of sampled worlds.
    pub fn samples(&self) -> usize {
        self.solved.ncols()
    }

    /// The latent function at the rows of `points` (m x d).
    pub fn predict(&self, points: &DMatrix<f64>) -> Prediction {
        self.predict_in(points, self.samples())
    }

    /// As [`Self::predict`], with the means of the first `worlds` sampled worlds alone, as far as there are so many.
    pub fn predict_in(&self, points: &DMatrix<f64>, worlds: usize) -> Prediction {
        let kernel = &self.hyperparameters.kernel;
        let covariance = kernel.cross(&self.points, points);
        let means = if worlds < self.samples() {
            transposed_product(&self.solved.columns(0, worlds).clone_owned(), &covariance)
        } else {
            transposed_product(&self.solved, &covariance)
        };
        let whitened = lower_product(&self.inverse_factor, &covariance);
        let deviation = |(prior, column): (f64, nalgebra::DVectorView<'_, f64>)| {
            (prior - column.norm_squared()).max(prior * VARIANCE_FLOOR).sqrt()
        };
        let deviations = kernel.variances(points).into_iter().zip(whitened.column_iter()).map(deviation).collect();
        Prediction { means, deviations, whitened }
    }

    /// The gradients by the points of `sum_s by_means[s] mu_s + by_variance s^2`, for the points (m x d) that
    /// `prediction` was made for: one vector of length d per point. `by_means` is S x m, `by_variances` of length m.
    pub fn gradients(
        &self,
        points: &DMatrix<f64>,
        prediction: &Prediction,
        by_means: &DMatrix<f64>,
        by_variances: &[f64],
    ) -> Vec<Vec<f64>> {
        // ds^2 = dk(u, u) - 2 (inv(K) k)'dk.
        let mut coefficients = lower_transposed_product(&self.inverse_factor, &prediction.whitened);
        for (mut column, by_variance) in coefficients.column_iter_mut().zip(by_variances) {
            column *= -2.0 * by_variance;
        }
        coefficients.gemm(1.0, &self.solved, by_means, 1.0);
        self.hyperparameters.kernel.gradients(&self.points, &coefficients, by_variances, points)
    }

    /// Adds a pending point (length d) whose latent value is drawn in each world: `mu_s + s e_s`.
    ///
    /// `normals` are the `e_s`; there are as many as the model has worlds, or, for the first fantasy, as many as it
    /// shall have. Returns the drawn values.
    pub fn fantasize(&mut self, point: &[f64], normals: &[f64]) -> Vec<f64> {
        if self.samples() != normals.len() {
            let base = self.solved.column(0).clone_owned();
            self.solved = DMatrix::from_fn(base.len(), normals.len(), |row, _| base[row]);
        }
        let n = self.points.nrows();
        let row = DMatrix::from_row_slice(1, point.len(), point);
        let prediction = self.predict(&row);
        let prior = self.hyperparameters.kernel.variances(&row)[0];
        let pivot = (prediction.deviations[0].powi(2) + FANTASY_NOISE * prior).sqrt();
        let drawn = normals.iter().enumerate().map(|(s, e)| prediction.means[(s, 0)] + pivot * e).collect();

        let appended = self.inverse_factor.tr_mul(&prediction.whitened) * (-1.0 / pivot);
        let mut inverse_factor = DMatrix::zeros(n + 1, n + 1);
        inverse_factor.view_mut((0, 0), (n, n)).copy_from(&self.inverse_factor);
        let mut solved = DMatrix::zeros(n + 1, normals.len());
        solved.view_mut((0, 0), (n, normals.len())).copy_from(&self.solved);
        for (s, e) in normals.iter().enumerate() {
            for i in 0..n {
                solved[(i, s)] += appended[(i, 0)] * e;
            }
            solved[(n, s)] = e / pivot;
        }
        for i in 0..n {
            inverse_factor[(n, i)] = appended[(i, 0)];
        }
        inverse_factor[(n, n)] = 1.0 / pivot;
        let mut points = DMatrix::zeros(n + 1, point.len());
        points.view_mut((0, 0), (n, point.len())).copy_from(&self.points);
        points.row_mut(n).copy_from(&row.row(0));
        self.points = points;
        self.inverse_factor = inverse_factor;
        self.solved = solved;
        drawn
    }
}
