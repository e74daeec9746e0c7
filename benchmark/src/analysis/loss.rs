//! Loss of a run: the gap between the best known value and the best so far. Smaller is better.

use crate::problem::Quality;
use crate::record::{ResultValue, RunRecord};
use tunesmith_algorithms::hypervolume::hypervolume_curve;

/// Results of one run, with the sign flipped so that smaller is better.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawRun {
    /// Best value after each result, `None` before the first feasible one.
    pub(super) best_so_far: Vec<Option<f64>>,
    /// Indices of further results of trials that resumed.
    resumed: Vec<usize>,
    /// Worst feasible value; 0 for hypervolumes, the volume of no result.
    pub(super) worst: Option<f64>,
    pub(super) best_known: Option<f64>,
    /// Smallest distinguished loss.
    resolution: f64,
}

impl RawRun {
    pub(super) fn of(record: &RunRecord) -> Self {
        let results = &record.results[..record.results.len().min(record.key.budget + record.resumed.len())];
        let resumed = record.resumed.clone();
        let resolution = record.resolution.unwrap_or(0.0);
        match &record.quality {
            Quality::Value { best_known } => {
                let sign = |value: f64| record.goals.first().map_or(value, |goal| goal.loss(value));
                let values: Vec<Option<f64>> = results.iter().map(|result| single(result.as_ref()).map(sign)).collect();
                let mut best = None;
                let best_so_far = values
                    .iter()
                    .map(|value| {
                        best = smaller(best, *value);
                        best
                    })
                    .collect();
                let worst = values.iter().flatten().copied().reduce(f64::max);
                Self { best_so_far, resumed, worst, best_known: best_known.map(sign), resolution }
            }
            Quality::Hypervolume { reference_point, best_known } => {
                let best_so_far = hypervolume_curve(&record.goals, reference_point, results.iter().map(values))
                    .into_iter()
                    .map(|volume| Some(-volume))
                    .collect();
                let best_known = best_known.map(|volume| -volume);
                Self { best_so_far, resumed, worst: Some(0.0), best_known, resolution }
            }
        }
    }

    pub(super) fn best(&self) -> Option<f64> {
        self.best_so_far.last().copied().flatten()
    }

    /// Loss after each of `budget` trials, given the best value of the problem and the loss before the first feasible
    /// result. Stays constant after a run ends early. A trial that resumes is no further one: its next result changes the
    /// loss after the trials so far.
    pub(super) fn losses(&self, budget: usize, best: f64, before_feasible: f64) -> Vec<f64> {
        let mut losses = self.losses_by_result(budget + self.resumed.len(), best, before_feasible);
        let mut next = 0..;
        losses.retain(|_| next.next().is_none_or(|index: usize| !self.resumed.contains(&(index + 1))));
        losses.truncate(budget);
        losses
    }

    /// Loss after each of `count` results, as [`Self::losses`].
    pub(super) fn losses_by_result(&self, count: usize, best: f64, before_feasible: f64) -> Vec<f64> {
        let mut last = before_feasible;
        let mut losses = Vec::with_capacity(count);
        for index in 0..count {
            if let Some(Some(value)) = self.best_so_far.get(index) {
                last = (value - best).max(self.resolution);
            }
            losses.push(last);
        }
        losses
    }
}

fn single(result: Option<&ResultValue>) -> Option<f64> {
    let value = match result? {
        ResultValue::One(value) => *value,
        ResultValue::Many(values) => *values.first()?,
    };
    value.is_finite().then_some(value)
}

fn values(result: &Option<ResultValue>) -> Option<&[f64]> {
    match result.as_ref()? {
        ResultValue::One(value) => Some(std::slice::from_ref(value)),
        ResultValue::Many(values) => Some(values),
    }
}

fn smaller(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::Goal;

    use super::super::synthetic_fixture::record;
    use super::*;

    #[test]
    fn the_loss_is_the_gap_to_the_best_known_value_and_never_increases() {
        let mut run = record("gp", "f1", 1, &[5.0, 7.0, 3.5, 4.0]);
        run.quality = Quality::Value { best_known: Some(3.0) };
        let raw = RawRun::of(&run);
        assert_eq!((raw.best(), raw.worst, raw.best_known), (Some(3.5), Some(7.0), Some(3.0)));
        assert_eq!(raw.losses(4, 3.0, 100.0), [2.0, 2.0, 0.5, 0.5]);
    }

    #[test]
    fn a_trial_that_resumes_is_no_further_trial() {
        let mut run = record("gp", "f1", 1, &[5.0, 7.0, 3.0, 4.0, 2.0, 1.0]);
        (run.key.budget, run.resumed) = (4, vec![2, 5]);
        let raw = RawRun::of(&run);
        // The third result is of one of the first two trials, the last one of any.
        assert_eq!(raw.losses(4, 0.0, 9.0), [5.0, 3.0, 3.0, 1.0]);
        assert_eq!(raw.losses_by_result(6, 0.0, 9.0), [5.0, 5.0, 3.0, 3.0, 2.0, 1.0]);
    }

    #[test]
    fn larger_values_of_a_maximised_metric_are_better() {
        let mut run = record("gp", "f1", 1, &[0.5, 0.75, 0.25]);
        run.goals = vec![Goal::Maximize];
        run.quality = Quality::Value { best_known: Some(1.0) };
        let raw = RawRun::of(&run);
        assert_eq!((raw.best(), raw.worst, raw.best_known), (Some(-0.75), Some(-0.25), Some(-1.0)));
        assert_eq!(raw.losses(3, -1.0, 9.0), [0.5, 0.25, 0.25]);
    }

    #[test]
    fn the_loss_is_the_given_one_before_the_first_feasible_result_and_constant_after_a_failure() {
        let mut run = record("gp", "f1", 1, &[5.0, 2.0]);
        run.results[0] = None;
        let raw = RawRun::of(&run);
        assert_eq!(raw.losses(4, 0.0, 9.0), [9.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn a_value_beyond_the_best_known_one_has_no_loss() {
        assert_eq!(RawRun::of(&record("gp", "f1", 1, &[-1.0])).losses(1, 0.0, 9.0), [0.0]);
    }

    #[test]
    fn no_loss_is_below_the_resolution() {
        let mut run = record("gp", "forest", 1, &[5.0, 1.5, 1.0]);
        run.quality = Quality::Value { best_known: Some(1.0) };
        run.resolution = Some(0.75);
        assert_eq!(RawRun::of(&run).losses(3, 1.0, 9.0), [4.0, 0.75, 0.75]);
    }

    #[test]
    fn the_loss_with_several_metrics_is_the_missing_volume() {
        let mut run = record("gp", "zdt1", 1, &[0.0, 0.0, 0.0]);
        run.goals = vec![Goal::Minimize, Goal::Minimize];
        run.quality = Quality::Hypervolume { reference_point: vec![2.0, 2.0], best_known: Some(4.0) };
        run.results = vec![None, Some(ResultValue::Many(vec![1.0, 1.0])), Some(ResultValue::Many(vec![0.0, 1.0]))];
        let raw = RawRun::of(&run);
        assert_eq!(raw.losses(3, -4.0, 4.0), [4.0, 3.0, 2.0]);
    }
}
