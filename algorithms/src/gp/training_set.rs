//! The observations that a model is fitted to.

use nalgebra::DMatrix;

use crate::problem::ObservationNoise;

/// The observations that a model is fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSet {
    /// `X`, n x d: ordered features in `[0, 1]`, categories as level indices.
    pub points: DMatrix<f64>,
    /// `y`, length n, finite, about zero mean and unit scale.
    pub values: Vec<f64>,
    /// `w`, length n: the noise variance of observation i is `w_i nz`. 1 / count for a mean of replicates.
    pub noise_weights: Vec<f64>,
    /// Whether each feature is a category, length d.
    pub categorical: Vec<bool>,
    /// Selects the prior of the noise variance.
    pub noise: ObservationNoise,
}

impl TrainingSet {
    /// The observations at `indices`, in that order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            points: self.points.select_rows(indices),
            values: indices.iter().map(|&index| self.values[index]).collect(),
            noise_weights: indices.iter().map(|&index| self.noise_weights[index]).collect(),
            categorical: self.categorical.clone(),
            noise: self.noise,
        }
    }
}
