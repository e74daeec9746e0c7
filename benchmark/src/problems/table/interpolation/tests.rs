use tunesmith_algorithms::problem::{
    ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement,
    ScaleType, SearchSpace, TrialId,
};

use crate::problem::{CurvePoint, Draw, Evaluation, EvaluationOutcome, Problem, Quality};
use crate::problems::table::{TableProblem, TableRow};

const DRAW: Draw = Draw { seed: 7, trial: TrialId::FIRST };

fn point(x: f64, kernel: Option<&str>) -> ParameterValues {
    let mut point = ParameterValues::from([("x".to_owned(), ParameterValue::Double(x))]);
    point.extend(kernel.map(|level| ("kernel".to_owned(), ParameterValue::Categorical(level.to_owned()))));
    point
}

fn row(x: f64, kernel: Option<&str>, value: f64) -> TableRow {
    TableRow { parameters: point(x, kernel), values: Some(vec![value]), duration_secs: None, curve: Vec::new() }
}

fn failed(x: f64) -> TableRow {
    TableRow { values: None, ..row(x, None, 0.0) }
}

/// A problem with one parameter from 0 to 1, so four neighbours; and one with two levels if the rows have it, so eight.
fn problem(rows: Vec<TableRow>) -> TableProblem {
    let mut parameters =
        vec![ParameterSpec::new("x", ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear })];
    if rows[0].parameters.len() == 2 {
        let kind = ParameterKind::Categorical { values: vec!["linear".into(), "rbf".into()] };
        parameters.push(ParameterSpec::new("kernel", kind));
    }
    let space = SearchSpace::new(parameters.into_iter().map(Result::unwrap).collect()).unwrap();
    let metrics = vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }];
    TableProblem::new("t", ProblemStatement::new(space, metrics).unwrap(), rows).unwrap().interpolated()
}

fn value(problem: &TableProblem, x: f64, kernel: Option<&str>) -> f64 {
    match problem.evaluate(&point(x, kernel), DRAW).outcome {
        EvaluationOutcome::Measured { observed, noiseless, constraints } => {
            assert_eq!((observed.len(), &observed, constraints), (1, &noiseless, Vec::new()));
            observed[0]
        }
        EvaluationOutcome::Infeasible { reason } => panic!("{reason}"),
    }
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-12 * expected.abs(), "{value} is not {expected}");
}

#[test]
fn four_neighbours_of_one_parameter_have_the_weights_of_the_formula() {
    let rows = [0.0, 0.25, 0.5, 0.75, 1.0].map(|x| row(x, None, 16.0 * x * x));
    // At 0.6 the neighbours 0.5, 0.75 and 0.25 are at 0.1, 0.15 and 0.35. The fourth, 1.0 at 0.4, defines the radius
    // and has no weight; 0.0 is not a neighbour. With ((0.16 - r^2) / 0.16)^2 / r^2:
    let weights = [87.890625, 0.738525390625 / 0.0225, 0.054931640625 / 0.1225];
    let expected = (weights[0] * 4.0 + weights[1] * 9.0 + weights[2] * 1.0) / weights.iter().sum::<f64>();
    assert_close(value(&problem(rows.to_vec()), 0.6, None), expected);
}

#[test]
fn recorded_points_keep_their_exact_evaluations() {
    let rows: Vec<TableRow> = (0..=9).map(|index| row(f64::from(index) / 9.0, None, f64::from(index).sin())).collect();
    let problem = problem(rows.clone());
    for row in &rows {
        assert_eq!(problem.evaluate(&row.parameters, DRAW), Evaluation::exact(row.values.as_ref().unwrap()[0]));
    }
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(5.0_f64.sin()) });
}

#[test]
fn interpolation_is_continuous_and_never_better_than_the_best_row() {
    let rows: Vec<TableRow> = (0..=9).map(|index| row(f64::from(index) / 9.0, None, f64::from(index).sin())).collect();
    let problem = problem(rows);
    let values: Vec<f64> = (0..=9000).map(|step| value(&problem, f64::from(step) / 9000.0, None)).collect();
    // Neighbouring rows differ by at most 1, the size of the jumps between nearest rows.
    let largest_step = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f64::max);
    assert!(largest_step < 0.003, "{largest_step}");
    let (best, worst) = (5.0_f64.sin(), 8.0_f64.sin());
    assert!(values.iter().all(|value| (best..=worst).contains(value)));
}

#[test]
fn rows_of_other_levels_are_not_used_if_the_own_level_has_enough() {
    let places = (0..10).map(|index| f64::from(index) / 9.0);
    let rows = places.flat_map(|x| [row(x, Some("linear"), x), row(x, Some("rbf"), 100.0 - x)]);
    let problem = problem(rows.collect());
    // The eight nearest rows of 0.55 are at most 0.45 away, another level at least 1.
    assert!((value(&problem, 0.55, Some("linear")) - 0.55).abs() < 0.02);
    assert!((value(&problem, 0.55, Some("rbf")) - 99.45).abs() < 0.02);
    // Rows of the other level complement a level with a single row.
    let lonely = (0..10).map(|index| row(f64::from(index) / 9.0, Some("linear"), 1.0));
    let lonely = self::problem(lonely.chain([row(0.0, Some("rbf"), 3.0)]).collect());
    let helped = value(&lonely, 0.9, Some("rbf"));
    assert!(helped > 1.1 && helped < 2.9, "{helped}");
}

#[test]
fn rows_at_equal_distances_have_equal_weights() {
    assert_close(value(&problem(vec![row(0.25, None, 1.0), row(0.75, None, 4.0)]), 0.5, None), 2.5);
    // Of copies of one point, the first counts.
    assert_close(value(&problem(vec![row(0.5, None, 1.0), row(0.5, None, 4.0)]), 0.5, None), 1.0);
}

#[test]
fn a_point_is_infeasible_if_infeasible_rows_have_more_than_half_of_the_weight() {
    let problem =
        problem(vec![row(0.0, None, 1.0), row(0.2, None, 2.0), failed(0.4), failed(0.6), row(1.0, None, 9.0)]);
    let reason = |x: f64| match problem.evaluate(&point(x, None), DRAW).outcome {
        EvaluationOutcome::Infeasible { reason } => Some(reason),
        EvaluationOutcome::Measured { .. } => None,
    };
    assert_eq!(reason(0.55).as_deref(), Some("recorded trial 4 was infeasible"));
    assert_eq!(reason(0.4).as_deref(), Some("recorded trial 3 was infeasible"));
    // At 0.25 the radius is 0.35, the distance of the second failure. The first failure, at 0.15, has (1 - 0.0225 /
    // 0.1225)^2 / 0.0225 = 29.6 of 424.2, and the value is the mean of the other two rows.
    let near = (1.0_f64 - 0.0025 / 0.1225).powi(2) / 0.0025;
    let far = (1.0_f64 - 0.0625 / 0.1225).powi(2) / 0.0625;
    assert_close(value(&problem, 0.25, None), (2.0 * near + 1.0 * far) / (near + far));
}

#[test]
fn durations_and_curves_are_means_with_the_same_weights() {
    let with_curve = |x: f64, secs: f64, curve: [f64; 2]| TableRow {
        duration_secs: Some(secs),
        curve: vec![(5, curve[0]), (10, curve[1])],
        ..row(x, None, curve[1])
    };
    let rows = vec![with_curve(0.25, 2.0, [8.0, 4.0]), with_curve(0.75, 6.0, [6.0, 1.0])];
    let half_way = problem(rows).evaluate(&point(0.5, None), DRAW);
    let report = |step, elapsed_secs, value| CurvePoint { step, elapsed_secs, value };
    assert_eq!(half_way.duration_secs, 4.0);
    assert_eq!(half_way.curve, [report(5, 2.0, 7.0), report(10, 4.0, 2.5)]);
    let end = EvaluationOutcome::Measured { observed: vec![2.5], noiseless: vec![2.5], constraints: Vec::new() };
    assert_eq!(half_way.outcome, end);
    // A step reported by only one row has its value.
    let short = TableRow { duration_secs: Some(6.0), curve: vec![(5, 6.0)], ..row(0.75, None, 6.0) };
    let uneven = problem(vec![with_curve(0.25, 2.0, [8.0, 4.0]), short]).evaluate(&point(0.5, None), DRAW);
    assert_eq!(uneven.curve, [report(5, 2.0, 7.0), report(10, 4.0, 4.0)]);
}

#[test]
fn constraints_are_interpolated_like_values() {
    let x =
        ParameterSpec::new("x", ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear }).unwrap();
    let metrics = vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }];
    let statement = ProblemStatement::new(SearchSpace::new(vec![x]).unwrap(), metrics).unwrap();
    let statement = statement.with_constraints(vec![ConstraintSpec::new("time", Goal::Minimize, 3.0)]).unwrap();
    let row = |x: f64, time: f64| TableRow { values: Some(vec![1.0, time]), ..row(x, None, 0.0) };
    let problem = TableProblem::new("t", statement, vec![row(0.25, 2.0), row(0.75, 8.0)]).unwrap().interpolated();
    let EvaluationOutcome::Measured { constraints, .. } = problem.evaluate(&point(0.5, None), DRAW).outcome else {
        panic!("infeasible")
    };
    // The mean of 2 and 8, above the limit by 2.
    assert_eq!(constraints, [2.0]);
}
