//! Traits of acquisition functions, one per purpose.

use nalgebra::DMatrix;

use crate::gp::RunningStackedPrediction;

/// Number of points per matrix product, so that intermediate results stay in the cache.
pub(super) const BLOCK: usize = 256;

/// Value and gradient at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct AcquisitionValue {
    /// Value to maximise.
    pub value: f64,
    /// Gradient by the ordered features; 0 for categories.
    pub gradient: Vec<f64>,
}

/// Points evaluated repeatedly while pending trials are added.
#[derive(Debug, Clone)]
pub struct Screening {
    /// One point per row.
    pub(super) points: DMatrix<f64>,
    /// Prediction of the model for each block of points; empty if the function recomputes it in each call.
    pub(super) predictions: Vec<RunningStackedPrediction>,
    /// Log probability of feasibility of each point, unaffected by pending trials; empty without a feasibility model.
    pub(super) log_feasibilities: Vec<f64>,
}

/// Function of the points of a space, to be maximised. It proposes the trials of a batch one after another.
///
/// # Contract for implementers
/// The function is pure: equal calls return equal bits. Values are finite for finite points, and differentiable along
/// ordered features except at kinks.
pub trait Acquisition {
    /// Value at each row of `points` (m x d), over at most `samples` of the fantasy samples, which is cheaper with
    /// pending trials.
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64>;

    /// Value at each row of `points` (m x d).
    fn values(&self, points: &DMatrix<f64>) -> Vec<f64> {
        self.values_over(points, usize::MAX)
    }

    /// Value and gradient at each row of `points` (m x d).
    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue>;

    /// Whether the function is conditioned on pending trials, which makes evaluations expensive.
    fn has_pending(&self) -> bool;

    /// Conditions the function on a pending trial at `point` (length d).
    ///
    /// `normals` returns, for a purpose and a count, that many standard normal numbers, which depend only on the trial
    /// and the purpose.
    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>);

    /// Prepares `points` (m x d) for [`Self::screened`] over at most `samples` of the fantasy samples.
    fn screening(&self, points: DMatrix<f64>, _samples: usize) -> Screening {
        Screening { points, predictions: Vec::new(), log_feasibilities: Vec::new() }
    }

    /// Values of the points of `screening` over at most `samples` of the fantasy samples.
    ///
    /// `screening` must come from this function or from one that it was cloned from, possibly before the last trials
    /// became pending.
    fn screened(&self, screening: &mut Screening, samples: usize) -> Vec<f64> {
        in_blocks(&screening.points, |block| self.values_over(block, samples))
    }

    /// The same function with the posterior mean at `point` (length d) as its threshold; `None` if the function has no
    /// single threshold.
    fn with_threshold_at(&self, _point: &[f64]) -> Option<Box<dyn Acquisition>> {
        None
    }
}

/// Concatenates the results of `values` for blocks of rows of `points` (m x d).
pub(super) fn in_blocks(points: &DMatrix<f64>, values: impl Fn(&DMatrix<f64>) -> Vec<f64>) -> Vec<f64> {
    let mut all = Vec::with_capacity(points.nrows());
    for start in (0..points.nrows()).step_by(BLOCK) {
        all.extend(values(&points.rows(start, BLOCK.min(points.nrows() - start)).clone_owned()));
    }
    all
}
