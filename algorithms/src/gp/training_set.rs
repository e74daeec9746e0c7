//! Observations for fitting a model.

use nalgebra::DMatrix;

use crate::problem::ObservationNoise;

/// Observations for fitting a model.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSet {
    /// `X`, n x d: ordered features in `[0, 1]`, categories as level indices.
    pub points: DMatrix<f64>,
    /// `y`, length n, finite, about zero mean and unit scale.
    pub values: Vec<f64>,
    /// `w`, length n: the noise variance of observation i is `w_i nz + e_i`. 1 / count for a mean of replicates.
    pub noise_weights: Vec<f64>,
    /// `e`, length n, at least 0: noise of observation i in addition to `w_i nz`, which the fit does not change.
    pub added_noise: Vec<f64>,
    /// Whether each feature is a category, length d.
    pub categorical: Vec<bool>,
    /// Selects the prior of the noise variance.
    pub noise: ObservationNoise,
}

impl TrainingSet {
    /// Selects the observations at `indices`, in that order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            points: self.points.select_rows(indices),
            values: indices.iter().map(|&index| self.values[index]).collect(),
            noise_weights: indices.iter().map(|&index| self.noise_weights[index]).collect(),
            added_noise: indices.iter().map(|&index| self.added_noise[index]).collect(),
            categorical: self.categorical.clone(),
            noise: self.noise,
        }
    }

    /// Noise variance of each observation, length n, for the noise variance `nz` of the model.
    pub(crate) fn noise_variances(&self, nz: f64) -> Vec<f64> {
        self.noise_weights.iter().zip(&self.added_noise).map(|(weight, added)| weight * nz + added).collect()
    }
}
