//! Pareto-optimal trials of a study.

use std::collections::BTreeMap;

use tunesmith_algorithms::problem::{TrialId, pareto};

use tunesmith_domain::{Study, Trial, TrialState};

/// Batch size from which a front of one or two metrics is recomputed: O(n log n) over all trials, instead of O(f) per
/// new trial and front of f.
const MANY: usize = 32;

/// Metric values of a succeeded trial, all to be maximised; `None` if one is missing or NaN, or a constraint is
/// violated.
pub(super) fn values(study: &Study, trial: &Trial) -> Option<Vec<f64>> {
    if trial.state == TrialState::Deleted || !study.is_feasible(trial) {
        return None;
    }
    let measurement = trial.final_measurement.as_ref()?;
    let values =
        study.problem.metrics().iter().map(|metric| Some(metric.goal.to_maximized(measurement.value(&metric.name)?)));
    values.collect::<Option<Vec<f64>>>().filter(|values| !values.iter().any(|value| value.is_nan()))
}

/// Values of the trials not dominated by any other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Front(pub(super) BTreeMap<TrialId, Vec<f64>>);

impl Front {
    /// Adds `new` trials. With a `single` metric, keeps only the first trial with the best value; otherwise keeps all
    /// copies of a point.
    pub(super) fn extend(&mut self, new: Vec<(TrialId, Vec<f64>)>, single: bool) {
        if new.len() < MANY || new.first().is_some_and(|(_, values)| values.len() > 2) {
            for (id, values) in new {
                self.insert(id, values, single);
            }
            return;
        }
        self.0.extend(new);
        // By number, so that the smallest number wins among equal points.
        let (ids, points): (Vec<TrialId>, Vec<Vec<f64>>) = std::mem::take(&mut self.0).into_iter().unzip();
        let front = if single { pareto::distinct_front(&points) } else { pareto::front(&points) };
        let mut points: Vec<Option<Vec<f64>>> = points.into_iter().map(Some).collect();
        self.0 = front.into_iter().filter_map(|index| Some((ids[index], points[index].take()?))).collect();
    }

    fn insert(&mut self, id: TrialId, values: Vec<f64>, single: bool) {
        let is_worse = |(other, point): (&TrialId, &Vec<f64>)| {
            pareto::dominates(point, &values) || (single && *point == values && *other < id)
        };
        if self.0.iter().any(is_worse) {
            return;
        }
        self.0.retain(|_, point| !(pareto::dominates(&values, point) || (single && *point == values)));
        self.0.insert(id, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small numbers, for frequent ties; deterministic in `seed` and position.
    fn points(seed: u64, count: u64, metrics: u64) -> Vec<(TrialId, Vec<f64>)> {
        let draw = |place: u64| {
            let mixed =
                (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed >> 40) % 7) as f64 - 3.0
        };
        (0..count)
            .map(|index| (TrialId(index + 1), (0..metrics).map(|j| draw(index * metrics + j)).collect()))
            .collect()
    }

    fn whole(points: &[(TrialId, Vec<f64>)], single: bool) -> Vec<TrialId> {
        let values: Vec<&[f64]> = points.iter().map(|(_, values)| values.as_slice()).collect();
        let front = if single { pareto::distinct_front(&values) } else { pareto::front(&values) };
        front.into_iter().map(|index| points[index].0).collect()
    }

    #[test]
    fn front_in_steps_equals_the_front_of_all() {
        for metrics in 1..=4 {
            for seed in 0..20 {
                let all = points(seed, 300, metrics);
                for step in [1, 7, MANY, 100, 300] {
                    let mut front = Front::default();
                    // Results arrive out of order.
                    let mut arriving = all.clone();
                    arriving.sort_by_key(|(id, _)| (id.0 * 37) % 101);
                    let mut seen = Vec::new();
                    for part in arriving.chunks(step) {
                        front.extend(part.to_vec(), metrics == 1);
                        seen.extend_from_slice(part);
                        seen.sort_by_key(|(id, _)| *id);
                        assert_eq!(
                            front.0.keys().copied().collect::<Vec<_>>(),
                            whole(&seen, metrics == 1),
                            "{metrics} metrics, seed {seed}, step {step}"
                        );
                    }
                }
            }
        }
    }
}
