//! Curves of the trials that ended with values, and the choice of a stopped trial that resumes.

use std::collections::BTreeMap;

use tunesmith_algorithms::early_stopping::{CompletedCurve, CurvePoint};
use tunesmith_algorithms::problem::{Goal, ParameterValues, TrialId};

use crate::problem::Evaluation;

/// Number of stopped trials that may be judged again at a time, those with the best predictions, as in the service.
const MOST_JUDGED: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Curves {
    trials: BTreeMap<TrialId, Curve>,
}

#[derive(Debug)]
struct Curve {
    /// At least one report.
    points: Vec<CurvePoint>,
    stopped: Option<Stopped>,
}

/// A trial that was stopped early and may resume.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) point: ParameterValues,
    /// Evaluation up to the end of the trial.
    pub(super) whole: Box<Evaluation>,
    pub(super) predicted_final: Option<f64>,
}

impl Curves {
    /// Adds a trial that ended. Without reports it has no curve.
    pub(super) fn insert(&mut self, trial: TrialId, points: Vec<CurvePoint>, stopped: Option<Stopped>) {
        if !points.is_empty() {
            self.trials.insert(trial, Curve { points, stopped });
        }
    }

    /// Curves of all trials except `trial`.
    pub(super) fn except(&self, trial: TrialId) -> impl Iterator<Item = CompletedCurve<'_>> {
        let others = self.trials.iter().filter(move |(id, _)| **id != trial);
        others.map(|(_, curve)| CompletedCurve { points: &curve.points, stopped_early: curve.stopped.is_some() })
    }

    /// Number of reports and complete evaluation of each stopped trial.
    pub(super) fn stopped(&self) -> impl Iterator<Item = (usize, &Evaluation)> {
        self.trials.values().filter_map(|curve| Some((curve.points.len(), &*curve.stopped.as_ref()?.whole)))
    }

    /// The first stopped trial that `may_resume` by its reports, in the order of their predicted final values, then of
    /// their last values.
    pub(super) fn first_to_resume(
        &self,
        goal: Goal,
        may_resume: impl Fn(TrialId, &[CurvePoint]) -> bool,
    ) -> Option<TrialId> {
        let loss = |value: Option<f64>| value.map_or(f64::INFINITY, |value| goal.loss(value));
        let stopped = self.trials.iter().filter_map(|(trial, Curve { points, stopped })| {
            let predicted = loss(stopped.as_ref()?.predicted_final);
            Some((predicted, loss(points.last().map(|last| last.value)), *trial, points))
        });
        let mut stopped: Vec<_> = stopped.collect();
        stopped.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut judged = stopped.into_iter().take(MOST_JUDGED).map(|(_, _, trial, points)| (trial, points));
        judged.find(|(trial, points)| may_resume(*trial, points)).map(|(trial, _)| trial)
    }

    /// Removes a stopped trial; returns it with its number of reports.
    pub(super) fn take(&mut self, trial: TrialId) -> Option<(usize, Stopped)> {
        let Curve { points, stopped } = self.trials.remove(&trial)?;
        Some((points.len(), stopped?))
    }
}
