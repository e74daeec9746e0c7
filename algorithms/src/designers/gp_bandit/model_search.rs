//! Search for the best point of a fitted model.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;

use super::branches;
use super::finite::FinitePoints;
use super::model::Model;
use super::shared_candidates::SharedCandidates;
use crate::acquisition::{Acquisition, Axis, Region, Search, TrustRegion};
use crate::encoding::{Encoding, Key};
use crate::prior::PriorDensity;
use crate::problem::{Step, TrialId};
use crate::rng::stream;

/// Where the trust region has little left, one in this many trials also searches the whole space (chosen for time;
/// measured, see docs/experiments/002).
const WHOLE_SPACE_EVERY: u64 = 3;
/// Log expected improvement, in standard deviations of the values, below which the trust region has little left: ln 0.001
/// (measured, see docs/experiments/105). A restart of the region shows the same later: tiny improvements keep it from shrinking.
const LITTLE_IMPROVEMENT: f64 = -6.907_755_278_982_137;
/// The best point of the whole space is proposed if its log expected improvement exceeds that of the trust region by
/// more than this, ln 10 (measured, see docs/experiments/002).
const WHOLE_SPACE_MARGIN: f64 = std::f64::consts::LN_10;

/// Inputs of the search for one trial, except the model.
pub(super) struct ModelSearch<'a> {
    pub(super) encoding: &'a Encoding,
    pub(super) finite: Option<&'a FinitePoints>,
    pub(super) prior: Option<&'a PriorDensity>,
    /// Points never to propose.
    pub(super) used: &'a HashSet<Key>,
    pub(super) seed: u64,
    pub(super) trial: TrialId,
    /// Whether the trial searches the whole space despite the trust region.
    pub(super) is_global: bool,
    /// Whether some trials explore other branches of a conditional space.
    pub(super) explores_branches: bool,
}

impl ModelSearch<'_> {
    /// Best unused point by `model` with its origin; `None` if no unused point is found.
    pub(super) fn propose(&self, model: &mut Model) -> Option<(Vec<f64>, Step)> {
        let Model { acquisition, anchors, front, lengthscales, trust_region, is_log_improvement, candidates, .. } =
            model;
        let mut anchors = anchors.clone();
        if *front > 1 {
            // Search around a random point of the front.
            anchors[..*front].rotate_left(stream(self.seed, self.trial, "front").random_range(0..*front));
        }
        let whole = Region::whole(self.encoding);
        let ordered: Vec<bool> = whole.axes.iter().map(|axis| !matches!(axis, Axis::Levels(_))).collect();
        let scales = TrustRegion::UNIT.sides(lengthscales, &ordered);
        let compares_whole_space = *is_log_improvement && self.trial.0.is_multiple_of(WHOLE_SPACE_EVERY);
        let has_restarted = trust_region.is_some_and(|region| region.restarts > 0);
        let local = match (trust_region, anchors.first()) {
            (Some(trust_region), Some(incumbent)) if !self.is_global => {
                let sides = active_sides(self.encoding, trust_region, lengthscales, &ordered, incumbent);
                Some(whole.around(incumbent, &sides))
            }
            _ => None,
        };
        let search = Search {
            encoding: self.encoding,
            region: &whole,
            scales: &scales,
            anchors: &anchors,
            prior: self.prior,
            used: self.used,
            seed: self.seed,
            trial: self.trial,
        };
        if let Some(found) = self.point_of_other_branch(acquisition.as_ref(), &search) {
            return Some((found, Step::WholeSpace));
        }
        let best_of = |region: &Region, shared: &mut SharedCandidates| {
            self.best_of(acquisition.as_ref(), &Search { region, ..search }, shared)
        };
        // The trust region may have run out of unused points while the whole space has not.
        let Some(inside) = local.and_then(|local| best_of(&local, &mut candidates.local)) else {
            return best_of(&whole, &mut candidates.global).map(|point| (point, Step::WholeSpace));
        };
        let value_of = |point: &[f64]| acquisition.values(&DMatrix::from_row_slice(1, point.len(), point))[0];
        if !compares_whole_space || !has_restarted && value_of(&inside) >= LITTLE_IMPROVEMENT {
            return Some((inside, Step::TrustRegion));
        }
        let Some(anywhere) = best_of(&whole, &mut candidates.global) else {
            return Some((inside, Step::TrustRegion));
        };
        Some(if value_of(&anywhere) > value_of(&inside) + WHOLE_SPACE_MARGIN {
            (anywhere, Step::WholeSpace)
        } else {
            (inside, Step::TrustRegion)
        })
    }

    fn best_of(
        &self,
        acquisition: &dyn Acquisition,
        search: &Search<'_>,
        shared: &mut SharedCandidates,
    ) -> Option<Vec<f64>> {
        let listed = self.finite.and_then(|finite| finite.unused_inside(self.encoding, search.used, search.region));
        match listed {
            Some(points) => search.best_of(acquisition, &points),
            None => shared.maximize(search, acquisition),
        }
    }

    /// Best unused point of the branch explored by the trial, by improvement over the best point there; `None` if it
    /// explores none.
    fn point_of_other_branch(&self, acquisition: &dyn Acquisition, search: &Search<'_>) -> Option<Vec<f64>> {
        if !self.explores_branches {
            return None;
        }
        let best = branches::branch_to_explore(self.encoding, search.anchors, search.trial)?;
        let region = search.region.branch_of(self.encoding, best);
        let mut anchors = vec![best.to_vec()];
        anchors.extend(search.anchors.iter().filter(|anchor| *anchor != best).cloned());
        let own = acquisition.with_threshold_at(best);
        let search = Search { region: &region, anchors: &anchors, ..*search };
        self.best_of(own.as_deref().unwrap_or(acquisition), &search, &mut SharedCandidates::default())
    }
}

/// Sides of `trust_region` along the features active at `incumbent`, infinite along the others. `ordered` marks the
/// features that are not categories.
pub(super) fn active_sides(
    encoding: &Encoding,
    trust_region: &TrustRegion,
    lengthscales: &[f64],
    ordered: &[bool],
    incumbent: &[f64],
) -> Vec<f64> {
    let active = encoding.active(incumbent);
    let kept: Vec<usize> = (0..active.len()).filter(|&j| active[j]).collect();
    let (lengthscales, ordered): (Vec<f64>, Vec<bool>) = kept.iter().map(|&j| (lengthscales[j], ordered[j])).unzip();
    let mut sides = vec![f64::INFINITY; active.len()];
    for (j, side) in kept.into_iter().zip(trust_region.sides(&lengthscales, &ordered)) {
        sides[j] = side;
    }
    sides
}
