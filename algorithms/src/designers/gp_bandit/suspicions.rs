//! Results that are too good to be true, set aside until a trial very near to them confirms them.
//!
//! One falsely good result would be the incumbent and the centre of the trust region forever, and would flatten all
//! others to the same target. So it enters neither the model nor the trust region, and the next trial is its neighbour.
//! If the neighbour is as good, both count. Otherwise the result remains set aside (measured, see docs/experiments/021).

use super::outcomes::Outcomes;
use crate::encoding::Encoding;
use crate::problem::TrialId;
use crate::suspicion::{confirms, neighbour, suspects};

/// Points of the results that are set aside, best first.
#[derive(Debug, Clone, Default)]
pub(super) struct Suspicions {
    points: Vec<Vec<f64>>,
}

impl Suspicions {
    /// Removes the suspicious trials from `outcomes` of one objective.
    pub(super) fn set_aside(encoding: &Encoding, outcomes: &mut Outcomes) -> Self {
        let (ids, points, values) = outcomes.objectives[0].measured_trials();
        let found = suspects(encoding, &points, &values);
        let suspicious: Vec<TrialId> = found.iter().map(|suspect| ids[suspect.index]).collect();
        let points = found.iter().map(|suspect| points[suspect.index].to_vec()).collect();
        if !suspicious.is_empty() {
            *outcomes = outcomes.without(&suspicious);
        }
        Self { points }
    }

    /// Neighbour of the best suspicious point without a trial near it; `trials` are the points of all other trials,
    /// completed or pending.
    pub(super) fn confirming_point<'a>(
        &self,
        encoding: &Encoding,
        mut trials: impl Iterator<Item = &'a Vec<f64>> + Clone,
    ) -> Option<Vec<f64>> {
        let untested = self.points.iter().find(|suspect| !trials.any(|point| confirms(encoding, point, suspect)));
        untested.and_then(|suspect| neighbour(encoding, suspect))
    }
}
