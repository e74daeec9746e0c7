//! What the search for the best point needs to know of an acquisition function.

use nalgebra::DMatrix;

use super::function::{AcquisitionFunction, AcquisitionValue, FANTASY_SAMPLES};

/// A function of the points of a space, to be maximised.
///
/// # Contract for implementers
/// Pure: equal calls give equal bits. Values are finite for finite points, and differentiable along ordered features
/// but for kinks.
pub trait Acquisition {
    /// The value at each row of `points` (m x d).
    fn values(&self, points: &DMatrix<f64>) -> Vec<f64>;

    /// As [`Self::values`], but cheaper with trials pending: over at most `worlds` of the sampled worlds.
    fn values_in(&self, points: &DMatrix<f64>, worlds: usize) -> Vec<f64>;

    /// Value and gradient at each row of `points` (m x d).
    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue>;

    /// Whether trials are pending, so that evaluations are dear.
    fn has_pending(&self) -> bool;

    /// Takes a pending trial at `point` (length d) into account. `normals` gives, for a purpose and a count, so many
    /// standard normal numbers, which it fixes by the trial and the purpose.
    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>);
}

impl Acquisition for AcquisitionFunction {
    fn values(&self, points: &DMatrix<f64>) -> Vec<f64> {
        self.values(points)
    }

    fn values_in(&self, points: &DMatrix<f64>, worlds: usize) -> Vec<f64> {
        self.values_in(points, worlds)
    }

    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue> {
        self.values_and_gradients(points)
    }

    fn has_pending(&self) -> bool {
        self.has_pending()
    }

    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>) {
        self.add_pending(point, &normals("fantasy", FANTASY_SAMPLES));
    }
}
