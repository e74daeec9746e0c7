//! Selection of a trial's result from its measurements.
//!
//! Not here: results supplied by clients, and trials whose program failed.

use std::collections::BTreeMap;

use tunesmith_algorithms::problem::ProblemStatement;

use crate::{Completion, FinalMeasurement, Measurement, MetricValue};

/// Trial result as reported by a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportedOutcome {
    Measured(Measurement),
    /// The last or best measurement of the trial, according to the study.
    FromCurve,
    /// Reason for the missing result.
    Infeasible(String),
}

/// Result with which a trial is created.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenResult {
    pub outcome: ReportedOutcome,
    /// Curve, in order of arrival.
    pub measurements: Vec<Measurement>,
    /// Whether the trial was stopped before its end.
    pub stopped_early: bool,
}

impl From<ReportedOutcome> for GivenResult {
    fn from(outcome: ReportedOutcome) -> Self {
        Self { outcome, measurements: Vec::new(), stopped_early: false }
    }
}

/// Selects the measurement of `curve` that becomes the result of a trial.
///
/// Only measurements with a value for every metric and constraint qualify. They are ordered by
/// [`Measurement::curve_order`], then by position in `curve`, the order of arrival.
///
/// - [`FinalMeasurement::Last`]: the last one, finite or not.
/// - [`FinalMeasurement::Best`]: the best finite value of the first metric; the earliest of equal values. Without a
///   finite value, the last one, which the error then names.
///
/// Trainers may report each metric separately, so that no measurement has all values. The rule then selects among the
/// measurements of the first metric, and the other values are added from the same step or, failing that, from their
/// last measurement along the curve.
///
/// # Errors
/// [`NoFinalMeasurement`] if no measurement qualifies or one of the selected values is not finite.
pub fn final_measurement<'a>(
    problem: &ProblemStatement,
    rule: FinalMeasurement,
    curve: impl IntoIterator<Item = &'a Measurement>,
) -> Result<Measurement, NoFinalMeasurement> {
    let mut selection = FinalSelection::new(problem, rule);
    curve.into_iter().for_each(|measurement| selection.add(measurement));
    selection.finish()
}

/// Incremental form of [`final_measurement`], for curves read in pages. Memory is constant for a study with a single
/// value, and otherwise linear in the number of steps.
#[derive(Debug, Clone)]
pub struct FinalSelection<'a> {
    problem: &'a ProblemStatement,
    is_empty: bool,
    /// Selection among measurements with all values.
    complete: Chosen<'a>,
    /// Selection among incomplete measurements of the first metric.
    partial: Chosen<'a>,
    /// Last measurement at each step, for every value except the first.
    others: Vec<BTreeMap<i64, Measurement>>,
}

impl<'a> FinalSelection<'a> {
    pub fn new(problem: &'a ProblemStatement, rule: FinalMeasurement) -> Self {
        let chosen = Chosen { problem, rule, last: None, best: None };
        let others = problem.value_names().skip(1).map(|_| BTreeMap::new()).collect();
        Self { problem, is_empty: true, complete: chosen.clone(), partial: chosen, others }
    }

    /// Adds a measurement; call in order of arrival.
    pub fn add(&mut self, measurement: &Measurement) {
        self.is_empty = false;
        let mut names = self.problem.value_names();
        if names.all(|name| measurement.value(name).is_some()) {
            self.complete.add(measurement);
            return;
        }
        if self.complete.last.is_some() {
            return;
        }
        let mut names = self.problem.value_names();
        if names.next().is_some_and(|first| measurement.value(first).is_some()) {
            self.partial.add(measurement);
        }
        for (name, by_step) in names.zip(&mut self.others) {
            let is_last = |known: &Measurement| measurement.curve_order(known).is_ge();
            if measurement.value(name).is_some() && by_step.get(&measurement.step).is_none_or(is_last) {
                by_step.insert(measurement.step, measurement.clone());
            }
        }
    }

    /// Returns the selected measurement.
    ///
    /// # Errors
    /// [`NoFinalMeasurement`] as for [`final_measurement`].
    pub fn finish(self) -> Result<Measurement, NoFinalMeasurement> {
        if self.is_empty {
            return Err(NoFinalMeasurement::NoMeasurement);
        }
        if let Some(measurement) = self.complete.choice() {
            return measurement.require_finite();
        }
        let Some(mut measurement) = self.partial.choice() else { return Err(NoFinalMeasurement::MissingMetric) };
        for (name, by_step) in self.problem.value_names().skip(1).zip(&self.others) {
            if measurement.value(name).is_some() {
                continue;
            }
            let found = by_step.get(&measurement.step).or_else(|| by_step.values().next_back());
            let value = found.and_then(|found| found.value(name)).ok_or(NoFinalMeasurement::MissingMetric)?;
            measurement.metrics.push(MetricValue { metric: name.to_owned(), value });
        }
        measurement.require_finite()
    }
}

/// Running selection among measurements of the first metric.
#[derive(Debug, Clone)]
struct Chosen<'a> {
    problem: &'a ProblemStatement,
    rule: FinalMeasurement,
    last: Option<Measurement>,
    best: Option<Measurement>,
}

impl Chosen<'_> {
    fn add(&mut self, measurement: &Measurement) {
        if self.last.as_ref().is_none_or(|last| measurement.curve_order(last).is_ge()) {
            self.last = Some(measurement.clone());
        }
        if self.rule == FinalMeasurement::Best && self.is_better(measurement) {
            self.best = Some(measurement.clone());
        }
    }

    fn choice(self) -> Option<Measurement> {
        self.best.or(self.last)
    }

    /// Whether `measurement` is better than the best so far, or equal and earlier along the curve.
    fn is_better(&self, measurement: &Measurement) -> bool {
        let Some(metric) = self.problem.metrics().first() else { return false };
        let Some(value) = measurement.value(&metric.name).filter(|value| value.is_finite()) else { return false };
        let Some(best) = &self.best else { return true };
        let Some(best_value) = best.value(&metric.name) else { return true };
        let is_earlier_equal = value == best_value && measurement.curve_order(best).is_lt();
        metric.goal.is_better(value, best_value) || is_earlier_equal
    }
}

/// Reasons for a trial to have no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoFinalMeasurement {
    #[error("no measurement was reported")]
    NoMeasurement,
    #[error("no measurement has all metrics of the study")]
    MissingMetric,
    #[error("the final value of {metric:?} is {value}, at step {step}")]
    NotFinite { metric: String, value: f64, step: i64 },
}

impl Measurement {
    /// Returns the measurement if all its values are finite.
    ///
    /// # Errors
    /// [`NoFinalMeasurement::NotFinite`] for the first other value.
    pub fn require_finite(self) -> Result<Self, NoFinalMeasurement> {
        match self.metrics.iter().find(|metric| !metric.value.is_finite()) {
            None => Ok(self),
            Some(found) => {
                Err(NoFinalMeasurement::NotFinite { metric: found.metric.clone(), value: found.value, step: self.step })
            }
        }
    }
}

impl From<Result<Measurement, NoFinalMeasurement>> for Completion {
    fn from(result: Result<Measurement, NoFinalMeasurement>) -> Self {
        match result {
            Ok(final_measurement) => Self::Succeeded { final_measurement },
            Err(error) => Self::Infeasible { reason: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{
        ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterSpec, ScaleType, SearchSpace,
    };

    use super::*;
    use crate::ReportKey;

    fn measurement(step: i64, wall_time_secs: f64, values: &[(&str, f64)]) -> Measurement {
        let metrics = values.iter().map(|(metric, value)| MetricValue { metric: (*metric).to_owned(), value: *value });
        Measurement {
            step,
            wall_time_secs,
            elapsed_secs: None,
            key: ReportKey::MetricFile { attempt: 1 },
            metrics: metrics.collect(),
        }
    }

    fn accuracy(step: i64, wall_time_secs: f64, value: f64) -> Measurement {
        measurement(step, wall_time_secs, &[("acc", value)])
    }

    fn metric(name: &str, goal: Goal) -> MetricSpec {
        MetricSpec { name: name.to_owned(), goal }
    }

    fn problem(metrics: Vec<MetricSpec>) -> ProblemStatement {
        let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        ProblemStatement::new(space, metrics).unwrap()
    }

    fn select(goal: Goal, rule: FinalMeasurement, curve: &[Measurement]) -> Result<Measurement, String> {
        let problem = problem(vec![metric("acc", goal)]);
        final_measurement(&problem, rule, curve).map_err(|error| error.to_string())
    }

    #[test]
    fn last_is_the_highest_step_then_latest_time_then_latest_arrival() {
        let mut curve = vec![
            accuracy(2, 1.0, 0.1),
            accuracy(3, 5.0, 0.2),
            accuracy(3, 9.0, 0.3),
            accuracy(3, 9.0, 0.4),
            accuracy(1, 99.0, 0.9),
        ];
        let last = |curve: &[Measurement]| select(Goal::Maximize, FinalMeasurement::Last, curve);
        assert_eq!(last(&curve), Ok(curve[3].clone()));
        curve.push(Measurement { elapsed_secs: Some(1.0), ..accuracy(3, 9.0, 0.5) });
        curve.push(accuracy(3, 9.0, 0.6));
        assert_eq!(last(&curve), Ok(curve[5].clone()));
        curve.push(accuracy(4, 0.0, f64::NAN));
        assert_eq!(last(&curve), Err("the final value of \"acc\" is NaN, at step 4".to_owned()));
    }

    #[test]
    fn best_follows_the_goal_and_takes_the_earliest_of_equal_values() {
        let curve = [
            accuracy(1, 0.0, f64::NAN),
            accuracy(4, 0.0, 0.9),
            accuracy(2, 0.0, 0.9),
            accuracy(3, 0.0, 0.1),
            accuracy(2, 0.0, 0.9),
        ];
        assert_eq!(select(Goal::Maximize, FinalMeasurement::Best, &curve), Ok(curve[2].clone()));
        assert_eq!(select(Goal::Minimize, FinalMeasurement::Best, &curve), Ok(curve[3].clone()));
        let zeroes = [accuracy(1, 0.0, 0.0), accuracy(2, 0.0, -0.0)];
        assert_eq!(select(Goal::Minimize, FinalMeasurement::Best, &zeroes), Ok(zeroes[0].clone()));
    }

    #[test]
    fn best_prefers_any_finite_value_to_an_infinite_one() {
        let curve = [accuracy(1, 0.0, f64::INFINITY), accuracy(2, 0.0, 0.1), accuracy(3, 0.0, f64::NEG_INFINITY)];
        for goal in [Goal::Maximize, Goal::Minimize] {
            assert_eq!(select(goal, FinalMeasurement::Best, &curve), Ok(curve[1].clone()));
        }
    }

    #[test]
    fn best_without_a_finite_value_names_the_last_value() {
        let curve = [accuracy(2, 0.0, f64::NAN), accuracy(1, 0.0, f64::INFINITY)];
        let reason = "the final value of \"acc\" is NaN, at step 2".to_owned();
        assert_eq!(select(Goal::Maximize, FinalMeasurement::Best, &curve), Err(reason));
    }

    #[test]
    fn measurements_without_all_metrics_are_not_considered() {
        let metrics = problem(vec![metric("acc", Goal::Maximize), metric("loss", Goal::Minimize)]);
        let curve = [measurement(1, 0.0, &[("loss", 0.5), ("acc", 0.5)]), accuracy(2, 0.0, 0.9)];
        for rule in [FinalMeasurement::Last, FinalMeasurement::Best] {
            assert_eq!(final_measurement(&metrics, rule, &curve), Ok(curve[0].clone()));
            assert_eq!(final_measurement(&metrics, rule, &curve[1..]), Err(NoFinalMeasurement::MissingMetric));
            assert_eq!(final_measurement(&metrics, rule, &[]), Err(NoFinalMeasurement::NoMeasurement));
        }
    }

    #[test]
    fn values_that_are_reported_on_their_own_are_combined_by_step() {
        let size = ConstraintSpec::new("size", Goal::Minimize, 3.0);
        let problem = problem(vec![metric("acc", Goal::Maximize), metric("loss", Goal::Minimize)]);
        let problem = problem.with_constraints(vec![size]).unwrap();
        let curve = [
            accuracy(1, 1.0, 0.9),
            measurement(1, 1.1, &[("loss", 5.0)]),
            measurement(1, 1.2, &[("loss", 0.5)]),
            accuracy(2, 2.0, 0.8),
            measurement(2, 2.1, &[("loss", 0.25)]),
            measurement(0, 9.0, &[("size", 7.0)]),
        ];
        let chosen = |rule, curve: &[Measurement]| {
            let chosen = final_measurement(&problem, rule, curve)?;
            let values = ["acc", "loss", "size"].map(|name| chosen.value(name).unwrap());
            Ok::<_, NoFinalMeasurement>((chosen.step, values))
        };
        assert_eq!(chosen(FinalMeasurement::Last, &curve), Ok((2, [0.8, 0.25, 7.0])));
        assert_eq!(chosen(FinalMeasurement::Best, &curve), Ok((1, [0.9, 0.5, 7.0])));
        assert_eq!(chosen(FinalMeasurement::Last, &curve[..5]), Err(NoFinalMeasurement::MissingMetric));
        let infinite = [&curve[..], &[measurement(3, 0.0, &[("size", f64::INFINITY)])]].concat();
        let refused = chosen(FinalMeasurement::Last, &infinite).unwrap_err();
        assert_eq!(refused.to_string(), "the final value of \"size\" is inf, at step 2");
        // Measurements with all values take precedence.
        let complete = [&curve[..], &[measurement(0, 0.0, &[("size", 1.0), ("acc", 0.1), ("loss", 3.0)])]].concat();
        assert_eq!(chosen(FinalMeasurement::Last, &complete), Ok((0, [0.1, 3.0, 1.0])));
    }
}
