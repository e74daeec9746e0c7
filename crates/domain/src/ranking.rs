//! Ranking of results: a single rule for every list, page, export and command that names the best trial.

use std::cmp::Ordering;

use tunesmith_algorithms::encoding::{AtBound, at_bounds};
use tunesmith_algorithms::problem::{ConstraintSpec, ParameterValues, ProblemStatement, TrialId, pareto};

use super::measurement::MetricValue;
use super::trial::{Trial, TrialFields, TrialState};

/// Properties of a trial that determine its rank.
pub struct RankedFields<'a> {
    pub id: TrialId,
    pub parameters: &'a ParameterValues,
    pub state: TrialState,
    pub stopped_early: bool,
    pub result: Option<&'a [MetricValue]>,
}

/// A trial that can be ranked.
pub trait RankedTrial {
    fn ranked(&self) -> RankedFields<'_>;

    /// Value of the metric or constraint `name` in the result.
    fn value(&self, name: &str) -> Option<f64> {
        self.ranked().result?.iter().find(|metric| metric.metric == name).map(|metric| metric.value)
    }
}

impl RankedTrial for Trial {
    fn ranked(&self) -> RankedFields<'_> {
        let TrialFields { id, ref parameters, state, stopped_early, ref final_measurement, .. } = **self;
        let result = final_measurement.as_ref().map(|measurement| measurement.metrics.as_slice());
        RankedFields { id, parameters, state, stopped_early, result }
    }
}

/// Constraints of `problem` that the result of `trial` violates, in order; empty without a result.
pub(crate) fn violated<'a>(
    problem: &'a ProblemStatement,
    trial: &'a impl RankedTrial,
) -> impl Iterator<Item = &'a ConstraintSpec> {
    let holds =
        |constraint: &ConstraintSpec| trial.value(&constraint.name).is_some_and(|value| constraint.holds(value));
    problem.constraints().iter().filter(move |constraint| trial.ranked().result.is_some() && !holds(constraint))
}

/// Whether `trial` has a result that satisfies every constraint of `problem`.
pub fn is_feasible(problem: &ProblemStatement, trial: &impl RankedTrial) -> bool {
    trial.ranked().result.is_some() && violated(problem, trial).next().is_none()
}

/// Rank of a result; see [`best_first`].
#[derive(Debug, Clone, PartialEq)]
struct Rank {
    is_feasible: bool,
    is_whole: bool,
    /// Values per metric, in maximisation form; never NaN.
    values: Vec<f64>,
}

impl Rank {
    /// `None` if a metric is missing or NaN.
    fn of(problem: &ProblemStatement, trial: &impl RankedTrial) -> Option<Self> {
        let metrics = problem.metrics().iter();
        let values = metrics.map(|metric| Some(metric.goal.to_maximized(trial.value(&metric.name)?)));
        let values =
            values.collect::<Option<Vec<f64>>>().filter(|values| !values.iter().any(|value| value.is_nan()))?;
        Some(Self { is_feasible: is_feasible(problem, trial), is_whole: !trial.ranked().stopped_early, values })
    }

    /// `Less` if `self` is better.
    fn compare(&self, other: &Self) -> Ordering {
        let kind = |rank: &Self| (rank.is_feasible, rank.is_whole);
        kind(other).cmp(&kind(self)).then_with(|| compare_values(&self.values, &other.values))
    }
}

/// Compares values in maximisation form, metric by metric; `Less` if `a` is better.
pub fn compare_values(a: &[f64], b: &[f64]) -> Ordering {
    let by_metric = a.iter().zip(b).map(|(a, b)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
    by_metric.fold(Ordering::Equal, Ordering::then)
}

/// Compares two trials by the rule of [`best_first`]: `Less` if `a` is better, `Equal` if neither has a result.
pub fn compare_results(problem: &ProblemStatement, a: &impl RankedTrial, b: &impl RankedTrial) -> Ordering {
    compare_ranks(Rank::of(problem, a).as_ref(), Rank::of(problem, b).as_ref())
}

fn compare_ranks(a: Option<&Rank>, b: Option<&Rank>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.compare(b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Sorts `trials` from best to worst: those without a result last, ties by number.
///
/// Results that satisfy every constraint come first. Among them, results of completed trials precede those of trials
/// stopped early, whose last value is not a full-length result. Then the metrics decide, in order.
pub fn best_first<'a, T: RankedTrial>(problem: &ProblemStatement, trials: &'a [T]) -> Vec<&'a T> {
    let mut ranked: Vec<(Option<Rank>, &T)> = trials.iter().map(|trial| (Rank::of(problem, trial), trial)).collect();
    ranked.sort_by(|(a, first), (b, second)| {
        compare_ranks(a.as_ref(), b.as_ref()).then(first.ranked().id.cmp(&second.ranked().id))
    });
    ranked.into_iter().map(|(_, trial)| trial).collect()
}

/// Pareto front of several metrics: feasible trials not dominated by another one, sorted as in [`best_first`]. Trials
/// stopped early are included only if no feasible trial ran to its end. Empty for a single metric.
pub fn optimal_of_several(problem: &ProblemStatement, trials: &[impl RankedTrial]) -> Vec<TrialId> {
    if problem.metrics().len() < 2 {
        return Vec::new();
    }
    let succeeded = trials.iter().filter(|trial| trial.ranked().state == TrialState::Succeeded);
    let ranked = succeeded.filter_map(|trial| Some((Rank::of(problem, trial)?, trial.ranked().id)));
    let mut ranked: Vec<(Rank, TrialId)> = ranked.filter(|(rank, _)| rank.is_feasible).collect();
    if ranked.iter().any(|(rank, _)| rank.is_whole) {
        ranked.retain(|(rank, _)| rank.is_whole);
    }
    let points: Vec<&[f64]> = ranked.iter().map(|(rank, _)| rank.values.as_slice()).collect();
    let mut front: Vec<&(Rank, TrialId)> = pareto::front(&points).into_iter().map(|index| &ranked[index]).collect();
    front.sort_by(|(a, first), (b, second)| a.compare(b).then(first.cmp(second)));
    front.into_iter().map(|(_, id)| *id).collect()
}

/// Fewest full-length results at which the position of the best one is informative, and not due to chance; a guess.
const FEWEST_PLACED: usize = 10;

/// Parameter bounds reached by the best trial and by the second or third best; see [`at_bounds`]. Empty with fewer than
/// ten full-length results, and with several metrics, since the first one alone is not conclusive.
pub fn best_at_bounds<T: RankedTrial>(problem: &ProblemStatement, trials: &[T]) -> Vec<AtBound> {
    let is_whole = |trial: &&T| trial.ranked().state == TrialState::Succeeded && !trial.ranked().stopped_early;
    if problem.metrics().len() > 1 || trials.iter().filter(is_whole).count() < FEWEST_PLACED {
        return Vec::new();
    }
    let leaders =
        best_first(problem, trials).into_iter().take(3).filter(|trial| is_whole(trial) && is_feasible(problem, *trial));
    let mut leaders = leaders.map(|trial| at_bounds(problem.search_space(), trial.ranked().parameters));
    let Some(mut found) = leaders.next() else { return Vec::new() };
    let others: Vec<AtBound> = leaders.flatten().collect();
    found.retain(|bound| others.contains(bound));
    found
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tunesmith_algorithms::encoding::Bound;
    use tunesmith_algorithms::problem::{
        ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType,
        SearchSpace,
    };

    use super::*;
    use crate::{
        Completion, Measurement, MetricValue, NewTrial, ReportKey, Study, StudyFields, StudyId, TrialFields, TrialStart,
    };

    fn study(metrics: &[(&str, Goal)], constraint: Option<f64>) -> Study {
        let kind = ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metric = |(name, goal): &(&str, Goal)| MetricSpec { name: (*name).to_owned(), goal: *goal };
        let problem = ProblemStatement::new(space, metrics.iter().map(metric).collect()).unwrap();
        let limit = constraint.map(|limit| ConstraintSpec::new("size", Goal::Minimize, limit));
        let problem = problem.with_constraints(limit.into_iter().collect()).unwrap();
        Study::restore(StudyFields::new(StudyId::new("p", "l", "s").unwrap(), problem, Timestamp::UNIX_EPOCH))
    }

    /// Trial `number` at `x` with the given values of the study's metrics and constraints; without values, no result.
    fn trial(study: &Study, number: u64, x: i64, values: &[f64], stopped_early: bool) -> Trial {
        let values: Vec<MetricValue> = study
            .problem
            .value_names()
            .zip(values)
            .map(|(name, value)| MetricValue { metric: name.to_owned(), value: *value })
            .collect();
        let start = if values.is_empty() {
            TrialStart::Completed(Completion::Infeasible { reason: "failed".to_owned() }.into())
        } else {
            let final_measurement =
                Measurement { step: 1, wall_time_secs: 0.0, elapsed_secs: None, key: ReportKey::Http, metrics: values };
            TrialStart::Completed(Completion::Succeeded { final_measurement }.into())
        };
        let trial = Trial::new(NewTrial {
            id: TrialId(number),
            parameters: [("x".to_owned(), ParameterValue::Integer(x))].into(),
            start,
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: String::new(),
            create_time: Timestamp::UNIX_EPOCH,
            request_key: None,
        });
        Trial::restore(TrialFields { stopped_early, ..(*trial.unwrap()).clone() })
    }

    fn order(study: &Study, trials: &[Trial]) -> Vec<u64> {
        best_first(&study.problem, trials).iter().map(|trial| trial.id.0).collect()
    }

    #[test]
    fn results_that_satisfy_constraints_then_whole_ones_then_values_come_first() {
        let study = study(&[("loss", Goal::Minimize)], Some(5.0));
        let trials = [
            trial(&study, 1, 1, &[0.1, 9.0], false),
            trial(&study, 2, 2, &[0.2, 1.0], true),
            trial(&study, 3, 3, &[], false),
            trial(&study, 4, 4, &[0.9, 1.0], false),
            trial(&study, 5, 5, &[0.3, 1.0], false),
            trial(&study, 6, 6, &[0.3, 2.0], false),
            trial(&study, 7, 7, &[0.05, 9.0], true),
        ];
        assert_eq!(order(&study, &trials), [5, 6, 4, 2, 1, 7, 3]);
        assert_eq!(optimal_of_several(&study.problem, &trials), []);
    }

    #[test]
    fn front_of_several_metrics_starts_with_the_best_trial() {
        let study = study(&[("error", Goal::Minimize), ("speed", Goal::Maximize)], None);
        let results = [[0.5, 8.0], [0.25, 2.0], [0.3, 5.0], [0.75, 9.0], [0.25, 3.0], [0.3, 5.0], [0.6, 1.0]];
        let mut trials: Vec<Trial> =
            (1..).zip(&results).map(|(number, values)| trial(&study, number, 1, values, false)).collect();
        trials.push(trial(&study, 8, 1, &[0.1, 20.0], true));
        assert_eq!(optimal_of_several(&study.problem, &trials), [5, 3, 6, 1, 4].map(TrialId));
        assert_eq!(order(&study, &trials), [5, 2, 3, 6, 1, 7, 4, 8]);
        let stopped: Vec<Trial> = trials.split_off(7);
        assert_eq!(optimal_of_several(&study.problem, &stopped), [TrialId(8)]);
    }

    #[test]
    fn end_that_leading_trials_share_is_named() {
        let study = study(&[("loss", Goal::Minimize)], None);
        let with = |leaders: [i64; 3], count: u64| -> Vec<AtBound> {
            let place = |number: u64| leaders.get(number as usize - 1).copied().unwrap_or(5);
            let trials: Vec<Trial> =
                (1..=count).map(|number| trial(&study, number, place(number), &[number as f64], false)).collect();
            best_at_bounds(&study.problem, &trials)
        };
        let upper = AtBound { parameter: "x".to_owned(), bound: Bound::Upper, limit: ParameterValue::Integer(9) };
        let upper = [upper];
        assert_eq!(with([9, 4, 9], 10), upper);
        assert_eq!(with([9, 9, 1], 10), upper);
        assert_eq!(with([9, 4, 1], 10), []);
        assert_eq!(with([4, 9, 9], 10), []);
        assert_eq!(with([9, 9, 9], 9), []);
    }
}
