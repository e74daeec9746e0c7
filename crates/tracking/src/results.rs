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
