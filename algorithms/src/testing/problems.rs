//! Search spaces that a designer must cope with.

use crate::problem::{Goal, MetricSpec, ParameterKind, ParameterSpec, ProblemStatement, ScaleType, SearchSpace};

const SCALES: [ScaleType; 3] = [ScaleType::UnitLinear, ScaleType::UnitLog, ScaleType::UnitReverseLog];

/// A metric to be minimised or maximised.
pub fn metric(goal: Goal) -> MetricSpec {
    MetricSpec { name: "objective".to_owned(), goal }
}

/// Spaces with every kind of parameter on every scale, alone and together, ordinary and extreme, each with its name.
pub fn every_kind_and_scale() -> Vec<(String, ProblemStatement)> {
    let mut problems = Vec::new();
    let mut all = Vec::new();
    for scale in SCALES {
        let kinds = [
            ("double", double(1e-3, 2.0, scale)),
            ("integer", integer(1, 64, scale)),
            ("large_integer", integer(3, 2_000_000, scale)),
            ("discrete", ParameterKind::Discrete { values: vec![0.5, 1.0, 1.25, 7.0, 32.0], scale }),
        ];
        for (name, kind) in kinds {
            problems.push((format!("{name} {scale:?}"), problem(vec![parameter(name, kind.clone())])));
            all.push(parameter(&format!("{name}_{scale:?}"), kind));
        }
        let wide = vec![parameter("wide", double(1e-300, 1e300, scale)), parameter("k", integer(1, i64::MAX, scale))];
        problems.push((format!("wide {scale:?}"), problem(wide)));
    }
    all.push(parameter("level", categorical(&["relu", "tanh", "elu"])));
    all.push(parameter("fixed", integer(7, 7, ScaleType::UnitLinear)));
    problems.push(("all kinds together".to_owned(), problem(all)));
    problems.push(("categorical".to_owned(), problem(vec![parameter("level", categorical(&["b", "a", "c"]))])));
    let extreme = vec![
        parameter("any", integer(i64::MIN, i64::MAX, ScaleType::UnitLinear)),
        parameter("huge", double(-8e307, 8e307, ScaleType::UnitLinear)),
        parameter("narrow", double(1.0, 1.0_f64.next_up(), ScaleType::UnitLog)),
    ];
    problems.push(("extreme ranges".to_owned(), problem(extreme)));
    problems
}

/// 18 points: 3 integers, 2 levels, 3 discrete values, and a parameter that has one value.
pub fn finite_problem() -> ProblemStatement {
    let discrete = ParameterKind::Discrete { values: vec![0.1, 0.2, 0.4], scale: ScaleType::UnitLog };
    problem(vec![
        parameter("layers", integer(1, 3, ScaleType::UnitLinear)),
        parameter("optimizer", categorical(&["sgd", "adam"])),
        parameter("dropout", discrete),
        parameter("classes", integer(10, 10, ScaleType::UnitLinear)),
    ])
}

/// 18 points as well, without a categorical parameter.
pub(super) fn finite_problem_of_numbers() -> ProblemStatement {
    let discrete = ParameterKind::Discrete { values: vec![0.1, 0.2, 0.4], scale: ScaleType::UnitLog };
    problem(vec![
        parameter("layers", integer(1, 3, ScaleType::UnitLinear)),
        parameter("heads", integer(1, 2, ScaleType::UnitLinear)),
        parameter("dropout", discrete),
    ])
}

/// A space of one point.
pub fn one_point_problem() -> ProblemStatement {
    problem(vec![parameter("x", double(0.25, 0.25, ScaleType::UnitLog)), parameter("level", categorical(&["only"]))])
}

/// The same problem with parameters and levels defined in the opposite order.
pub(super) fn defined_backwards(problem: &ProblemStatement) -> ProblemStatement {
    let turned = problem.search_space().parameters().iter().rev().map(|spec| match spec.kind() {
        ParameterKind::Categorical { values } => {
            let values = values.iter().rev().cloned().collect();
            parameter(spec.name(), ParameterKind::Categorical { values })
        }
        kind => parameter(spec.name(), kind.clone()),
    });
    with_metrics(turned.collect(), problem.metrics().to_vec())
}

/// The same problem with the opposite goal for each metric.
pub(super) fn upside_down(problem: &ProblemStatement) -> ProblemStatement {
    let metrics = problem.metrics().iter().map(|metric| {
        let goal = match metric.goal {
            Goal::Maximize => Goal::Minimize,
            Goal::Minimize => Goal::Maximize,
        };
        MetricSpec { goal, ..metric.clone() }
    });
    with_metrics(problem.search_space().parameters().to_vec(), metrics.collect())
}

pub(super) fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Double { min, max, scale }
}

pub(super) fn integer(min: i64, max: i64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Integer { min, max, scale }
}

pub(super) fn categorical(levels: &[&str]) -> ParameterKind {
    ParameterKind::Categorical { values: levels.iter().map(|&level| level.to_owned()).collect() }
}

pub(super) fn parameter(name: &str, kind: ParameterKind) -> ParameterSpec {
    ParameterSpec::new(name, kind).expect("the kit's parameters are valid")
}

/// A problem with one metric to be maximised.
pub(super) fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
    with_metrics(parameters, vec![metric(Goal::Maximize)])
}

pub(super) fn with_metrics(parameters: Vec<ParameterSpec>, metrics: Vec<MetricSpec>) -> ProblemStatement {
    let space = SearchSpace::new(parameters).expect("the kit's parameters have different names");
    ProblemStatement::new(space, metrics).expect("the kit's problems have one metric")
}
