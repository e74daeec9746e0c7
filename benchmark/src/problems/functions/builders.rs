//! Helpers that construct problems and read the values of points.
//!
//! They panic on errors of this crate and on points outside the space, which [`crate::problem::Problem`] excludes.

use tunesmith_algorithms::problem::{
    Condition, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement,
    ScaleType, SearchSpace,
};

pub(crate) fn linear(min: f64, max: f64) -> ParameterKind {
    double(min, max, ScaleType::UnitLinear)
}

pub(crate) fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Double { min, max, scale }
}

pub(crate) fn integer(min: i64, max: i64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Integer { min, max, scale }
}

pub(crate) fn discrete(values: Vec<f64>, scale: ScaleType) -> ParameterKind {
    ParameterKind::Discrete { values, scale }
}

pub(crate) fn categorical(levels: &[&str]) -> ParameterKind {
    ParameterKind::Categorical { values: levels.iter().map(|&level| level.to_owned()).collect() }
}

pub(crate) fn parameter(name: &str, kind: ParameterKind) -> ParameterSpec {
    ParameterSpec::new(name, kind).expect("the parameters of the problems are valid")
}

/// Makes `parameter` active only if the categorical `parent` has one of `levels`.
pub(crate) fn under(parameter: ParameterSpec, parent: &str, levels: &[&str]) -> ParameterSpec {
    let values = levels.iter().map(|&level| ParameterValue::Categorical(level.to_owned())).collect();
    parameter.with_condition(Condition::new(parent, values))
}

/// Doubles x01, x02, ... on linear scales.
pub(crate) fn box_of_doubles(ranges: &[(f64, f64)]) -> Vec<ParameterSpec> {
    let spec = |(index, &(min, max)): (usize, &(f64, f64))| parameter(&label(index), linear(min, max));
    ranges.iter().enumerate().map(spec).collect()
}

/// Point of [`box_of_doubles`] with these coordinates.
pub(crate) fn point_of_doubles(x: &[f64]) -> ParameterValues {
    x.iter().enumerate().map(|(index, &x)| (label(index), ParameterValue::Double(x))).collect()
}

pub(crate) fn point<const N: usize>(values: [(&str, ParameterValue); N]) -> ParameterValues {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn category(level: impl Into<String>) -> ParameterValue {
    ParameterValue::Categorical(level.into())
}

fn label(index: usize) -> String {
    format!("x{:02}", index + 1)
}

/// Statement with the metric `objective`, or `objective_1`, `objective_2`, ... for several.
pub(crate) fn statement(parameters: Vec<ParameterSpec>, goals: &[Goal]) -> ProblemStatement {
    let metric = |(index, &goal): (usize, &Goal)| {
        let name = if goals.len() == 1 { "objective".to_owned() } else { format!("objective_{}", index + 1) };
        MetricSpec { name, goal }
    };
    let metrics = goals.iter().enumerate().map(metric).collect();
    let space = SearchSpace::new(parameters).expect("a problem has parameters, and they have different names");
    ProblemStatement::new(space, metrics).expect("a problem has metrics, and they are numbered")
}

/// Values of a point of doubles, in name order.
pub(crate) fn doubles(point: &ParameterValues) -> Vec<f64> {
    point.keys().map(|name| number(point, name)).collect()
}

pub(crate) fn whole(point: &ParameterValues, name: &str) -> f64 {
    match point.get(name) {
        Some(ParameterValue::Integer(value)) => *value as f64,
        other => panic!("{name} is {other:?}, not an integer"),
    }
}

/// Value of a double or discrete parameter.
pub(crate) fn number(point: &ParameterValues, name: &str) -> f64 {
    match point.get(name) {
        Some(ParameterValue::Double(value) | ParameterValue::Discrete(value)) => *value,
        other => panic!("{name} is {other:?}, not a number"),
    }
}

pub(crate) fn level<'a>(point: &'a ParameterValues, name: &str) -> &'a str {
    match point.get(name) {
        Some(ParameterValue::Categorical(level)) => level,
        other => panic!("{name} is {other:?}, not a level"),
    }
}
