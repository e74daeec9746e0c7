//! Results of the ended trials: the best one, and how it improved.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId};
use tunesmith_domain::{MetricValue, RankedFields, RankedTrial, Trial, TrialState, compare_results, is_feasible};

/// A trial with a result. Unlike [`Trial`], small enough to keep all of a study.
#[derive(Debug, Clone, PartialEq)]
struct Ended {
    id: TrialId,
    end: Timestamp,
    stopped_early: bool,
    metrics: Vec<MetricValue>,
    /// Empty: parameters do not influence the rank.
    parameters: ParameterValues,
}

impl RankedTrial for Ended {
    fn ranked(&self) -> RankedFields<'_> {
        let Self { id, ref parameters, stopped_early, ref metrics, .. } = *self;
        RankedFields { id, parameters, state: TrialState::Succeeded, stopped_early, result: Some(metrics) }
    }
}

/// Best result after the first `count` ended trials.
#[derive(Debug, Clone, PartialEq)]
pub struct BestPoint {
    pub count: u64,
    pub time: Timestamp,
    /// Values of the study's metrics, in their order.
    pub values: Vec<f64>,
}

/// Results of a study's trials so far.
#[derive(Debug, Default)]
pub struct Results {
    ended: BTreeMap<TrialId, Ended>,
}

impl Results {
    /// Adds the result of `trial`, or removes the earlier one of a trial that runs again or is deleted.
    pub fn note(&mut self, trial: &Trial) {
        let result = trial.final_measurement.as_ref().filter(|_| trial.state == TrialState::Succeeded);
        let Some((result, end)) = result.zip(trial.end_time) else {
            self.ended.remove(&trial.id);
            return;
        };
        let ended = Ended {
            id: trial.id,
            end,
            stopped_early: trial.stopped_early,
            metrics: result.metrics.clone(),
            parameters: ParameterValues::default(),
        };
        self.ended.insert(trial.id, ended);
    }

    /// Number of trials with a result.
    pub fn count(&self) -> usize {
        self.ended.len()
    }

    /// End of the last trial with a result.
    pub fn last_end(&self) -> Option<Timestamp> {
        self.ended.values().map(|ended| ended.end).max()
    }

    /// Best trial by [`tunesmith_domain::best_first`], if it satisfies every constraint.
    pub fn best(&self, problem: &ProblemStatement) -> Option<TrialId> {
        let best = self.ended.values().min_by(|a, b| compare_results(problem, *a, *b).then(a.id.cmp(&b.id)))?;
        is_feasible(problem, best).then_some(best.id)
    }

    /// Best result after each end of a trial, from the first feasible one on.
    pub fn curve(&self, problem: &Arc<ProblemStatement>) -> Vec<BestPoint> {
        let mut ended: Vec<&Ended> = self.ended.values().collect();
        ended.sort_by_key(|ended| (ended.end, ended.id));
        let mut curve = Vec::with_capacity(ended.len());
        let mut best: Option<&Ended> = None;
        for (index, trial) in ended.into_iter().enumerate() {
            if best.is_none_or(|best| compare_results(problem, trial, best).is_lt()) {
                best = Some(trial);
            }
            let Some(best) = best.filter(|best| is_feasible(problem, *best)) else { continue };
            let values = problem.metrics().iter().map(|metric| best.value(&metric.name)).collect::<Option<Vec<f64>>>();
            let count = index as u64 + 1;
            curve.extend(values.map(|values| BestPoint { count, time: trial.end, values }));
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_domain::{Completion, TrialChange};
    use tunesmith_store::Store;

    use super::*;
    use crate::testing::{at, measurement, problem, start_trial, store, study_id, succeed};

    #[tokio::test]
    async fn best_result_is_the_best_feasible_one_so_far() {
        let (store, problem) = (store().await, Arc::new(problem()));
        let mut results = Results::default();
        // The third trial violates the constraint, the fourth has no result.
        let losses = [(3.0, 1.0), (2.0, 1.0), (1.0, 11.0)];
        for (trial, (loss, size)) in (1..).zip(losses) {
            start_trial(&store, trial).await;
            let change = succeed(1, measurement(1, 1, loss, size), 10 - i64::try_from(trial).unwrap());
            results.note(&store.change_trial(&study_id(), TrialId(trial), change).await.unwrap());
        }
        start_trial(&store, 4).await;
        let failed = TrialChange::Complete {
            attempt: 1,
            measurements: Vec::new(),
            completion: Completion::Infeasible { reason: "exit code 1".into() },
            at: at(10),
        };
        results.note(&store.change_trial(&study_id(), TrialId(4), failed).await.unwrap());
        assert_eq!((results.count(), results.best(&problem), results.last_end()), (3, Some(TrialId(2)), Some(at(9))));
        // By their ends: 3, 2, 1.
        let point = |count, second, value| BestPoint { count, time: at(second), values: vec![value] };
        assert_eq!(results.curve(&problem), [point(2, 8, 2.0), point(3, 9, 2.0)]);
    }
}
