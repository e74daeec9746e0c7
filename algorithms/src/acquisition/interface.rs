//! The traits of acquisition functions, one per purpose.

use nalgebra::DMatrix;

use crate::gp::RunningStackedPrediction;

/// Number of points per matrix product, so that the intermediate results stay in the cache.
pub(super) const BLOCK: usize = 256;

/// Value and gradient at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct AcquisitionValue {
    /// The value, to be maximised.
    pub value: f64,
    /// The gradient by the ordered features; 0 for categories.
    pub gradient: Vec<f64>,
}

/// A function of the points of a space, to be maximised.
///
/// # Contract for implementers
/// The function is pure: equal calls return equal bits. Values are finite for finite points. They are differentiable
/// along ordered features except at kinks.
pub trait Acquisition {
    /// The value at each row of `points` (m x d).
    fn values(&self, points: &DMatrix<f64>) -> Vec<f64>;

    /// Like [`Self::values`], but over at most `samples` of the fantasy samples, which is cheaper with pending trials.
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64>;

    /// Value and gradient at each row of `points` (m x d).
    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue>;
}

/// Conditioning of an acquisition function on pending trials.
pub trait PendingTrials {
    /// Whether the function is conditioned on pending trials, which makes evaluations expensive.
    fn has_pending(&self) -> bool;

    /// Conditions the function on a pending trial at `point` (length d).
    ///
    /// `normals` returns, for a purpose and a count, that many standard normal numbers. They depend only on the trial and
    /// the purpose.
    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>);
}

/// Points that are evaluated repeatedly while pending trials are added.
#[derive(Debug, Clone)]
pub struct Screening {
    /// One point per row.
    pub(super) points: DMatrix<f64>,
    /// The model's prediction for each block of points; empty if the function recomputes it in each call.
    pub(super) predictions: Vec<RunningStackedPrediction>,
    /// The log probability of feasibility of each point, which pending trials do not change; empty without a feasibility
    /// model.
    pub(super) log_feasibilities: Vec<f64>,
}

/// Repeated evaluation of the same points while pending trials are added.
///
/// The default implementation evaluates all points in each call.
pub trait Screen: Acquisition {
    /// Prepares `points` (m x d) for [`Self::screened`] over at most `samples` of the fantasy samples.
    fn screening(&self, points: DMatrix<f64>, _samples: usize) -> Screening {
        Screening { points, predictions: Vec::new(), log_feasibilities: Vec::new() }
    }

    /// The values of the points of `screening` over at most `samples` of the fantasy samples.
    ///
    /// `screening` must come from this function or from one that it was cloned from, possibly before the last trials
    /// became pending.
    fn screened(&self, screening: &mut Screening, samples: usize) -> Vec<f64> {
        in_blocks(&screening.points, |block| self.values_over(block, samples))
    }
}

/// Replacement of the improvement threshold.
pub trait Threshold {
    /// The same function with the posterior mean at `point` (length d) as its threshold; `None` if the function has no
    /// single threshold.
    fn with_threshold_at(&self, _point: &[f64]) -> Option<Box<dyn BatchAcquisition>> {
        None
    }
}

/// An acquisition function that proposes the trials of a batch one after the other.
pub trait BatchAcquisition: Acquisition + Screen + PendingTrials + Threshold {}

impl<T: Acquisition + Screen + PendingTrials + Threshold> BatchAcquisition for T {}

/// The concatenated results of `values` for the rows of `points` (m x d), evaluated block by block.
pub(super) fn in_blocks(points: &DMatrix<f64>, values: impl Fn(&DMatrix<f64>) -> Vec<f64>) -> Vec<f64> {
    let mut all = Vec::with_capacity(points.nrows());
    for start in (0..points.nrows()).step_by(BLOCK) {
        all.extend(values(&points.rows(start, BLOCK.min(points.nrows() - start)).clone_owned()));
    }
    all
}
