//! Curves of the trials that ended with values, and the choice of a stopped trial that resumes.

use std::collections::BTreeMap;

use tunesmith_algorithms::early_stopping::{CompletedCurve, CurvePoint};
use tunesmith_algorithms::problem::{Goal, ParameterValues, TrialId};

use crate::problem::Evaluation;

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

    /// The stopped trial to resume first, among those that `may_resume` by their reports: the one with most reports, then
    /// with the best last value, then the first.
    pub(super) fn first_to_resume(
        &self,
        goal: Goal,
        may_resume: impl Fn(TrialId, &[CurvePoint]) -> bool,
    ) -> Option<TrialId> {
        let stopped = self.trials.iter().filter(|(_, curve)| curve.stopped.is_some());
        let due = stopped.filter(|(trial, curve)| may_resume(**trial, &curve.points));
        let last = |curve: &Curve| curve.points.last().map_or(f64::NEG_INFINITY, |last| goal.to_maximized(last.value));
        let best = due.max_by(|(first, a), (second, b)| {
            let by_value = last(a).total_cmp(&last(b));
            a.points.len().cmp(&b.points.len()).then(by_value).then(second.cmp(first))
        });
        best.map(|(trial, _)| *trial)
    }

    /// Removes a stopped trial; returns it with its number of reports.
    pub(super) fn take(&mut self, trial: TrialId) -> Option<(usize, Stopped)> {
        let Curve { points, stopped } = self.trials.remove(&trial)?;
        Some((points.len(), stopped?))
    }
}
