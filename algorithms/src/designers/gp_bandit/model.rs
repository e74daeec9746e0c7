//! Fitted model of one history: acquisition function, best points and trust region.

use std::collections::HashSet;

use super::shared_candidates::RegionCandidates;
use crate::acquisition::{Acquisition, TrustRegion};
use crate::encoding::Encoding;

/// Ratio of noise to signal variance above which posterior means select the incumbent.
pub(super) const NOISY: f64 = 1e-3;
/// Number of best points to perturb for candidates.
const ANCHORS: usize = 5;
/// Number of other branches whose best point is perturbed too, in a conditional space (a guess).
const BRANCHES: usize = 8;

/// Computed once per request.
pub(super) struct Model {
    pub(super) acquisition: Box<dyn Acquisition>,
    /// Best points, the incumbent first, followed in a conditional space by the best points of other branches; may be
    /// empty. With several objectives the first `front` points are the Pareto front.
    pub(super) anchors: Vec<Vec<f64>>,
    /// Number of equally good anchors, any of which may be first.
    pub(super) front: usize,
    pub(super) lengthscales: Vec<f64>,
    /// `None` if the trust region is switched off, there is no incumbent, or all results are equal.
    pub(super) trust_region: Option<TrustRegion>,
    /// Whether the acquisition function is the logarithm of an improvement.
    pub(super) is_log_improvement: bool,
    /// Whether the model is stacked on models of source studies.
    pub(super) on_source_model: bool,
    /// Candidates shared by the suggestions of one request.
    pub(super) candidates: RegionCandidates,
}

/// The first few of `points`, sorted best first, and in a conditional space the first point with each other set of
/// active features.
pub(super) fn anchors(encoding: &Encoding, mut points: impl Iterator<Item = Vec<f64>>) -> Vec<Vec<f64>> {
    let mut anchors: Vec<Vec<f64>> = points.by_ref().take(ANCHORS).collect();
    if encoding.is_conditional() {
        let mut branches: HashSet<Vec<bool>> = anchors.iter().map(|point| encoding.active(point)).collect();
        anchors.extend(points.filter(|point| branches.insert(encoding.active(point))).take(BRANCHES));
    }
    anchors
}
