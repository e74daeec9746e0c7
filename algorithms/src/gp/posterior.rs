//! Posterior of a fitted model, conditioned on observations and, in each fantasy sample, on fantasised outcomes.
//!
//! Notation: `S` fantasy samples (1 without fantasies), `A = inv(K) [y, ...]` (n x S), `k` (n) covariance of a point
//! with the observations, `mu_s = k'A_s`, `s^2 = k(u, u) - |inv(L) k|^2` for the latent function, without noise.
//!
//! A fantasy appends a row to `inv(L)` and, because the new whitened target is the drawn standard normal number, a
//! rank-one update to `A`: O(n^2 + n S), independent of the number of pending trials.

use nalgebra::{DMatrix, DVector};

use super::hyperparameters::Hyperparameters;
use super::loss::factorize;
use super::training_set::TrainingSet;
use crate::numerics::products::{THIN, lower_product, lower_transposed_product, transposed_product};
use crate::numerics::triangular::InverseFactor;

/// Noise of a fantasised latent value relative to the prior variance; it only keeps repeated points from being
/// singular.
const FANTASY_NOISE: f64 = 1e-6;
/// Smallest posterior variance relative to the prior variance; smaller values are rounding errors.
const VARIANCE_FLOOR: f64 = 1e-12;
/// Number of fantasies for which a running prediction allocates rows at a time.
const ROWS_TO_COME: usize = 8;
/// Number of points whose covariances are computed together when only their means are needed.
const MEANS_TOGETHER: usize = 256;

/// A model conditioned on observations.
#[derive(Debug, Clone)]
pub struct Posterior {
    hyperparameters: Hyperparameters,
    points: DMatrix<f64>,
    /// `inv(L)`, n x n.
    inverse_factor: DMatrix<f64>,
    /// `A`, n x S.
    solved: DMatrix<f64>,
    /// `A'`, S x n.
    solved_transposed: DMatrix<f64>,
    fantasies: Vec<Fantasy>,
}

/// Row of the factor appended by a fantasy.
#[derive(Debug, Clone)]
struct Fantasy {
    /// `inv(L) k` of its point with all earlier points.
    couplings: Vec<f64>,
    /// Diagonal entry of `L`.
    pivot: f64,
    /// Drawn standard normal numbers, length S.
    normals: Vec<f64>,
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

/// Predictions for m fixed points, updated incrementally while fantasies are added: O(m n) per fantasy.
#[derive(Debug, Clone)]
pub struct RunningPrediction {
    /// m x d.
    points: DMatrix<f64>,
    /// `k(u, u)`, length m.
    priors: Vec<f64>,
    /// `|inv(L) k|^2`, length m.
    explained: Vec<f64>,
    /// Means of the first few fantasy samples, at least one, by m.
    means: DMatrix<f64>,
    /// `inv(L) k`, at least n x m, with zeros in the rows not yet used.
    whitened: DMatrix<f64>,
    /// Number of rows of `whitened` in use.
    rows: usize,
    /// Number of fantasies among them.
    fantasies: usize,
}

impl RunningPrediction {
    /// `mu_s` of point `i` in the first few fantasy samples.
    pub fn means(&self, i: usize) -> &[f64] {
        let samples = self.means.nrows();
        &self.means.as_slice()[i * samples..(i + 1) * samples]
    }

    /// Adds `offsets` (length m) to the means of the points, in every fantasy sample.
    pub(super) fn shift_means(&mut self, offsets: &[f64]) {
        for (mut means, offset) in self.means.column_iter_mut().zip(offsets) {
            means.add_scalar_mut(*offset);
        }
    }

    /// `s` of each point, length m, above zero.
    pub fn deviations(&self) -> impl Iterator<Item = f64> {
        self.priors.iter().zip(&self.explained).map(|(prior, explained)| deviation(*prior, *explained))
    }
}

fn deviation(prior: f64, explained: f64) -> f64 {
    (prior - explained).max(prior * VARIANCE_FLOOR).sqrt()
}

impl Posterior {
    /// Conditions the model on `data`; `None` if the covariance cannot be factorised even with jitter.
    pub fn new(hyperparameters: Hyperparameters, data: &TrainingSet) -> Option<Self> {
        let noise = data.noise_variances(hyperparameters.noise_variance);
        #[cfg(test)]
        super::work::factor_of(noise.len());
        let mut factor = InverseFactor::zeros(noise.len());
        let mut matrix = DMatrix::zeros(noise.len(), noise.len());
        let covariance = |matrix: &mut DMatrix<f64>| hyperparameters.kernel.lower_covariance(&data.points, matrix);
        if !factorize(&mut factor, &mut matrix, &noise, covariance) {
            return None;
        }
        let inverse_factor = factor.inverse;
        let whitened = &inverse_factor * DVector::from_column_slice(&data.values);
        let solved = DMatrix::from_column_slice(whitened.len(), 1, inverse_factor.tr_mul(&whitened).as_slice());
        let solved_transposed = solved.transpose();
        let points = data.points.clone();
        Some(Self { hyperparameters, points, inverse_factor, solved, solved_transposed, fantasies: Vec::new() })
    }

    /// Hyperparameters of the model.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// Prediction of each observation from all others, with its noise: mean and deviation. `values` are the observed
    /// ones, length n, without fantasies. (Rasmussen & Williams 2006, "Gaussian Processes for Machine Learning",
    /// equation 5.12.)
    pub fn leave_one_out(&self, values: &[f64]) -> Vec<(f64, f64)> {
        let one = |(i, value): (usize, &f64)| {
            let precision = self.inverse_factor.column(i).norm_squared();
            (value - self.solved[(i, 0)] / precision, precision.sqrt().recip())
        };
        values.iter().enumerate().map(one).collect()
    }

    /// `n`, including pending trials.
    pub(super) fn observations(&self) -> usize {
        self.points.nrows()
    }

    /// `S`, the number of fantasy samples.
    pub fn samples(&self) -> usize {
        self.solved.ncols()
    }

    /// Predicts the latent function at the rows of `points` (m x d).
    pub fn predict(&self, points: &DMatrix<f64>) -> Prediction {
        self.predict_over(points, self.samples())
    }

    /// [`Self::predict`] with the means of at most the first `samples` fantasy samples.
    pub fn predict_over(&self, points: &DMatrix<f64>, samples: usize) -> Prediction {
        let kernel = &self.hyperparameters.kernel;
        let covariance = kernel.cross(&self.points, points);
        let means = self.means(&covariance, samples);
        let whitened = lower_product(&self.inverse_factor, &covariance);
        let pairs = kernel.variances(points).into_iter().zip(whitened.column_iter());
        let deviations = pairs.map(|(prior, column)| deviation(prior, column.norm_squared())).collect();
        Prediction { means, deviations, whitened }
    }

    /// Mean and deviation, above zero, of the difference of the latent function at `a` and at `b` (length d each),
    /// without fantasies. The deviation is that of the joint posterior: less than that of either point if they are near
    /// each other.
    pub fn difference(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        let pair = DMatrix::from_fn(2, a.len(), |row, j| if row == 0 { a[j] } else { b[j] });
        let kernel = &self.hyperparameters.kernel;
        let Prediction { means, whitened, .. } = self.predict_over(&pair, 1);
        let prior = kernel.cross(&pair, &pair);
        let prior_variance = prior[(0, 0)] + prior[(1, 1)] - 2.0 * prior[(0, 1)];
        let explained = (whitened.column(0) - whitened.column(1)).norm_squared();
        let floor = VARIANCE_FLOOR * (prior[(0, 0)] + prior[(1, 1)]);
        (means[(0, 0)] - means[(0, 1)], (prior_variance - explained).max(floor).sqrt())
    }

    /// Mean of the first sample at the rows of `points` (m x d), length m, without the cost of deviations.
    pub(crate) fn first_means(&self, points: &DMatrix<f64>) -> Vec<f64> {
        let mut means = Vec::with_capacity(points.nrows());
        for start in (0..points.nrows()).step_by(MEANS_TOGETHER) {
            let block = points.rows(start, MEANS_TOGETHER.min(points.nrows() - start)).clone_owned();
            let covariance = self.hyperparameters.kernel.cross(&self.points, &block);
            means.extend(self.means(&covariance, 1).row(0).iter());
        }
        means
    }

    /// `mu_s` of at most the first `samples` fantasy samples, for points of this `covariance` (n x m).
    fn means(&self, covariance: &DMatrix<f64>, samples: usize) -> DMatrix<f64> {
        let samples = samples.min(self.samples());
        if samples > THIN && covariance.ncols() > THIN {
            return self.solved_transposed.rows(0, samples) * covariance;
        }
        if samples == self.samples() {
            return transposed_product(&self.solved, covariance);
        }
        transposed_product(&self.solved.columns(0, samples).clone_owned(), covariance)
    }

    /// [`Self::predict_over`] as a running prediction for [`Self::update`].
    pub fn follow(&self, points: DMatrix<f64>, samples: usize) -> RunningPrediction {
        let kernel = &self.hyperparameters.kernel;
        let Prediction { means, whitened, .. } = self.predict_over(&points, samples);
        RunningPrediction {
            priors: kernel.variances(&points),
            explained: whitened.column_iter().map(|column| column.norm_squared()).collect(),
            means,
            rows: whitened.nrows(),
            whitened,
            fantasies: self.fantasies.len(),
            points,
        }
    }

    /// Adds the fantasies added since to `running`, created by this posterior or one that it was cloned from, with the
    /// means of the first `samples` fantasy samples.
    pub fn update(&self, running: &mut RunningPrediction, samples: usize) {
        let observed = self.points.nrows() - self.fantasies.len();
        while running.fantasies < self.fantasies.len() {
            let index = running.fantasies;
            let Fantasy { couplings, pivot, normals } = &self.fantasies[index];
            let samples = samples.min(normals.len());
            if running.means.nrows() != samples {
                // The first fantasy replicates the single sample.
                let alone = std::mem::replace(&mut running.means, DMatrix::zeros(0, 0));
                running.means = DMatrix::from_fn(samples, alone.ncols(), |_, i| alone[(0, i)]);
            }
            if running.rows == running.whitened.nrows() {
                let whitened = std::mem::replace(&mut running.whitened, DMatrix::zeros(0, 0));
                running.whitened = whitened.resize_vertically(running.rows + ROWS_TO_COME, 0.0);
            }
            let mut padded = DMatrix::zeros(running.whitened.nrows(), 1);
            padded.rows_mut(0, couplings.len()).column_mut(0).copy_from_slice(couplings);
            let explained = transposed_product(&running.whitened, &padded);
            let place = self.points.rows(observed + index, 1).clone_owned();
            let covariance = self.hyperparameters.kernel.cross(&running.points, &place);
            for i in 0..running.points.nrows() {
                let whitened = (covariance[(i, 0)] - explained[(i, 0)]) / pivot;
                running.whitened[(running.rows, i)] = whitened;
                running.explained[i] += whitened * whitened;
                for (mean, normal) in running.means.column_mut(i).iter_mut().zip(normals) {
                    *mean += whitened * normal;
                }
            }
            running.rows += 1;
            running.fantasies += 1;
        }
    }

    /// Gradients by the points of `sum_s by_means[s] mu_s + by_variance s^2`, for the points (m x d) of `prediction`:
    /// one vector of length d per point. `by_means` is S x m, `by_variances` of length m.
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
        coefficients += transposed_product(&self.solved_transposed, by_means);
        self.hyperparameters.kernel.gradients(&self.points, &coefficients, by_variances, points)
    }

    /// Adds a pending point (length d) with a latent value drawn in each fantasy sample: `mu_s + s e_s`.
    ///
    /// `normals` are the `e_s`, as many as the model has samples; the first fantasy determines the number of samples.
    /// Returns the drawn values.
    pub fn fantasize(&mut self, point: &[f64], normals: &[f64]) -> Vec<f64> {
        if self.samples() != normals.len() {
            let base = self.solved.column(0).clone_owned();
            self.solved = DMatrix::from_fn(base.len(), normals.len(), |row, _| base[row]);
        }
        let n = self.points.nrows();
        #[cfg(test)]
        super::work::factor_of(n + 1);
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
        self.solved_transposed = solved.transpose();
        self.solved = solved;
        let couplings = prediction.whitened.as_slice().to_vec();
        self.fantasies.push(Fantasy { couplings, pivot, normals: normals.to_vec() });
        drawn
    }
}
