//! What the search for the best point needs to know of an acquisition function.

use nalgebra::DMatrix;

use crate::gp::RunningStackedPrediction;
use crate::prior::Beliefs;

/// Points scored by one matrix product: what is needed of them stays in the cache.
pub(super) const BLOCK: usize = 256;

/// Value and gradient at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct AcquisitionValue {
    /// The criterion, plus the log probability of feasibility.
    pub value: f64,
    /// By the ordered features; 0 for categories.
    pub gradient: Vec<f64>,
}

/// Points that are scored again and again while trials become pending.
#[derive(Debug, Clone)]
pub struct Screening {
    /// One per row.
    pub(super) points: DMatrix<f64>,
    /// What the model knows of each block of points; empty if the function computes it each time.
    pub(super) predictions: Vec<RunningStackedPrediction>,
    /// What feasibility adds to each value; empty without a model of it, which pending trials do not change.
    pub(super) log_feasibilities: Vec<f64>,
}

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

    /// Prepares `points` (m x d) for [`Self::screened`] over at most `worlds` of the sampled worlds.
    fn screening(&self, points: DMatrix<f64>, _worlds: usize) -> Screening {
        Screening { points, predictions: Vec::new(), log_feasibilities: Vec::new() }
    }

    /// As [`Self::values_in`] for the points of `screening`, which this function made, perhaps before the last trials
    /// became pending.
    fn screened(&self, screening: &mut Screening, worlds: usize) -> Vec<f64> {
        in_blocks(&screening.points, |block| self.values_in(block, worlds))
    }

    /// What is believed of the optimum, where that is a part of the function.
    fn beliefs(&self) -> Option<&Beliefs> {
        None
    }

    /// The same function of improvement over the posterior mean at `point` (length d), where it is one of improvement over
    /// one threshold.
    fn of_improvement_over(&self, _point: &[f64]) -> Option<Box<dyn Acquisition>> {
        None
    }

    /// Whether trials are pending, so that evaluations are dear.
    fn has_pending(&self) -> bool;

    /// Takes a pending trial at `point` (length d) into account. `normals` gives, for a purpose and a count, so many
    /// standard normal numbers, which it fixes by the trial and the purpose.
    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>);
}

/// What `values` gives for the rows of `points` (m x d), asked for a block of them at a time.
pub(super) fn in_blocks(points: &DMatrix<f64>, values: impl Fn(&DMatrix<f64>) -> Vec<f64>) -> Vec<f64> {
    let mut all = Vec::with_capacity(points.nrows());
    for start in (0..points.nrows()).step_by(BLOCK) {
        all.extend(values(&points.rows(start, BLOCK.min(points.nrows() - start)).clone_owned()));
    }
    all
}
