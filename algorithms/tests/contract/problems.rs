//! Search spaces that designers must handle.

use crate::problem::{
    Condition, ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement,
    ScaleType, SearchSpace,
};

const SCALES: [ScaleType; 3] = [ScaleType::UnitLinear, ScaleType::UnitLog, ScaleType::UnitReverseLog];

pub(crate) fn metric(goal: Goal) -> MetricSpec {
    MetricSpec { name: "objective".to_owned(), goal }
}

/// Named spaces with every kind of parameter on every scale, alone and combined, ordinary and extreme.
pub(crate) fn every_kind_and_scale() -> Vec<(String, ProblemStatement)> {
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

/// A space of 18 points: 3 integers, 2 levels, 3 discrete values, and a parameter with one value.
pub(crate) fn finite_problem() -> ProblemStatement {
    let discrete = ParameterKind::Discrete { values: vec![0.1, 0.2, 0.4], scale: ScaleType::UnitLog };
    problem(vec![
        parameter("layers", integer(1, 3, ScaleType::UnitLinear)),
        parameter("optimizer", categorical(&["sgd", "adam"])),
        parameter("dropout", discrete),
        parameter("classes", integer(10, 10, ScaleType::UnitLinear)),
    ])
}

/// A space of 18 points without categorical parameters.
pub(super) fn finite_problem_of_numbers() -> ProblemStatement {
    let discrete = ParameterKind::Discrete { values: vec![0.1, 0.2, 0.4], scale: ScaleType::UnitLog };
    problem(vec![
        parameter("layers", integer(1, 3, ScaleType::UnitLinear)),
        parameter("heads", integer(1, 2, ScaleType::UnitLinear)),
        parameter("dropout", discrete),
    ])
}

/// Named conditional spaces: shallow and deep, finite and infinite.
///
/// Parents are of every possible kind. Some parents and children have one value, some children are active for several
/// values of their parent, and some values of parents have no children.
pub(crate) fn conditional_problems() -> Vec<(String, ProblemStatement)> {
    let linear = ScaleType::UnitLinear;
    let optimizer = || parameter("optimizer", categorical(&["sgd", "adam", "none"]));
    let shallow = vec![
        optimizer(),
        under(parameter("momentum", double(0.0, 0.99, linear)), "optimizer", levels(&["sgd"])),
        under(parameter("rate", double(1e-5, 1.0, ScaleType::UnitLog)), "optimizer", levels(&["sgd", "adam"])),
        under(parameter("epsilon", integer(8, 8, linear)), "optimizer", levels(&["adam"])),
        parameter("batch", integer(1, 64, ScaleType::UnitLog)),
    ];
    // A chain of parents: categorical, integer, one value, discrete, and an integer range too large to list.
    let deep = vec![
        parameter("kind", categorical(&["tree", "net"])),
        under(parameter("layers", integer(1, 3, linear)), "kind", levels(&["net"])),
        under(parameter("gate", categorical(&["on"])), "layers", integers(&[2, 3])),
        under(parameter("size", discrete(&[0.5, 1.0, 4.0])), "gate", levels(&["on"])),
        under(parameter("width", integer(1, 100_000, linear)), "size", vec![ParameterValue::Discrete(4.0)]),
        under(parameter("decay", double(0.0, 1.0, linear)), "width", integers(&[100_000, 50_000])),
        under(parameter("leaves", integer(2, 200, ScaleType::UnitLog)), "kind", levels(&["tree"])),
        under(parameter("split", categorical(&["best", "random", "oblique"])), "kind", levels(&["tree"])),
    ];
    let mut problems =
        vec![("conditional, depth 1".to_owned(), problem(shallow)), ("conditional, depth 5".to_owned(), problem(deep))];
    problems.extend(conditional_finite_problems().into_iter().map(|(name, problem)| (name.to_owned(), problem)));
    problems
}

/// Conditional spaces of 12 and 17 points.
pub(super) fn conditional_finite_problems() -> [(&'static str, ProblemStatement); 2] {
    let linear = ScaleType::UnitLinear;
    let shallow = vec![
        parameter("optimizer", categorical(&["sgd", "adam"])),
        under(parameter("momentum", integer(1, 4, linear)), "optimizer", levels(&["sgd"])),
        under(parameter("fixed", integer(1, 1, linear)), "optimizer", levels(&["adam"])),
        under(parameter("beta", discrete(&[0.9, 0.99])), "optimizer", levels(&["adam"])),
        parameter("layers", integer(1, 2, linear)),
    ];
    // No booster; a tree of depth 0; a tree of three depths with three bins or by levels; a line with three penalties.
    let deep = vec![
        parameter("booster", categorical(&["none", "tree", "linear"])),
        under(parameter("depth", integer(0, 3, linear)), "booster", levels(&["tree"])),
        under(parameter("grow", categorical(&["leaf", "level"])), "depth", integers(&[1, 2, 3])),
        under(parameter("bins", discrete(&[16.0, 64.0, 256.0])), "grow", levels(&["leaf"])),
        under(parameter("penalty", discrete(&[0.1, 1.0, 10.0])), "booster", levels(&["linear"])),
    ];
    [("conditional, 12 points", problem(shallow)), ("conditional, 17 points", problem(deep))]
}

fn discrete(values: &[f64]) -> ParameterKind {
    ParameterKind::Discrete { values: values.to_vec(), scale: ScaleType::UnitLinear }
}

fn under(parameter: ParameterSpec, parent: &str, values: Vec<ParameterValue>) -> ParameterSpec {
    parameter.with_condition(Condition::new(parent, values))
}

fn levels(levels: &[&str]) -> Vec<ParameterValue> {
    levels.iter().map(|&level| ParameterValue::Categorical(level.to_owned())).collect()
}

fn integers(integers: &[i64]) -> Vec<ParameterValue> {
    integers.iter().copied().map(ParameterValue::Integer).collect()
}

/// Named problems with several metrics, with constraints and with both.
pub(crate) fn several_outputs() -> Vec<(String, ProblemStatement)> {
    let goals = [Goal::Maximize, Goal::Minimize, Goal::Minimize, Goal::Maximize];
    let constraint = |index: usize| {
        let goal = if index == 0 { Goal::Minimize } else { Goal::Maximize };
        ConstraintSpec::new(format!("constraint_{index}"), goal, 0.25 - 0.5 * index as f64)
    };
    let mut problems = Vec::new();
    for (metrics, constraints) in [(2, 0), (3, 0), (4, 0), (1, 1), (1, 2), (2, 1)] {
        let rate = parameter("rate", double(1e-4, 1.0, ScaleType::UnitLog));
        let mixed = vec![
            rate.clone(),
            parameter("layers", integer(1, 8, ScaleType::UnitLinear)),
            parameter("level", categorical(&["relu", "tanh", "elu"])),
        ];
        let numbers = vec![rate, parameter("dropout", double(0.0, 0.9, ScaleType::UnitLinear))];
        // Every other problem has no categorical parameters.
        let (kind, parameters) = if problems.len() % 2 == 0 { ("mixed", mixed) } else { ("numbers", numbers) };
        let metric = |(index, goal): (usize, &Goal)| MetricSpec { name: format!("metric_{index}"), goal: *goal };
        let problem = with_metrics(parameters, goals[..metrics].iter().enumerate().map(metric).collect())
            .with_constraints((0..constraints).map(constraint).collect())
            .expect("the kit's constraints have different names");
        problems.push((format!("{kind}, {metrics} metrics, {constraints} constraints"), problem));
    }
    problems
}

pub(super) fn outputs_backwards(problem: &ProblemStatement) -> ProblemStatement {
    let metrics = problem.metrics().iter().rev().cloned().collect();
    let constraints = problem.constraints().iter().rev().cloned().collect();
    with_metrics(problem.search_space().parameters().to_vec(), metrics)
        .with_constraints(constraints)
        .expect("the parts are those of a valid problem")
}

pub(crate) fn one_point_problem() -> ProblemStatement {
    problem(vec![parameter("x", double(0.25, 0.25, ScaleType::UnitLog)), parameter("level", categorical(&["only"]))])
}

pub(super) fn defined_backwards(problem: &ProblemStatement) -> ProblemStatement {
    let turned = problem.search_space().parameters().iter().rev().map(|spec| {
        let kind = match spec.kind() {
            ParameterKind::Categorical { values } => {
                ParameterKind::Categorical { values: values.iter().rev().cloned().collect() }
            }
            kind => kind.clone(),
        };
        let turned = parameter(spec.name(), kind);
        match spec.condition() {
            Some(condition) => under(turned, condition.parent(), condition.values().iter().rev().cloned().collect()),
            None => turned,
        }
    });
    with_metrics(turned.collect(), problem.metrics().to_vec())
        .with_constraints(problem.constraints().to_vec())
        .expect("the parts are those of a valid problem")
}

/// The same problem with the opposite goal for each metric and constraint.
pub(super) fn upside_down(problem: &ProblemStatement) -> ProblemStatement {
    let opposite = |goal| match goal {
        Goal::Maximize => Goal::Minimize,
        Goal::Minimize => Goal::Maximize,
    };
    let metric = |metric: &MetricSpec| MetricSpec { goal: opposite(metric.goal), ..metric.clone() };
    let constraint = |constraint: &ConstraintSpec| ConstraintSpec {
        goal: opposite(constraint.goal),
        threshold: -constraint.threshold,
        ..constraint.clone()
    };
    let metrics = problem.metrics().iter().map(metric).collect();
    with_metrics(problem.search_space().parameters().to_vec(), metrics)
        .with_constraints(problem.constraints().iter().map(constraint).collect())
        .expect("the parts are those of a valid problem")
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

pub(super) fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
    with_metrics(parameters, vec![metric(Goal::Maximize)])
}

pub(super) fn with_metrics(parameters: Vec<ParameterSpec>, metrics: Vec<MetricSpec>) -> ProblemStatement {
    let space = SearchSpace::new(parameters).expect("the kit's parameters have different names");
    ProblemStatement::new(space, metrics).expect("the kit's metrics have different names")
}
