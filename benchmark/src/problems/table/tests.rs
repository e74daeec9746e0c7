use super::*;
use tunesmith_algorithms::problem::{
    ConstraintSpec, Goal, MetricSpec, ObservationNoise, ParameterKind, ParameterSpec, ParameterValue, ScaleType,
    SearchSpace, TrialId,
};

const DRAW: Draw = Draw { seed: 7, trial: TrialId::FIRST };

fn statement(goals: &[Goal]) -> ProblemStatement {
    let rate = ParameterKind::Double { min: 1e-4, max: 1.0, scale: ScaleType::UnitLog };
    let depth = ParameterKind::Integer { min: 1, max: 5, scale: ScaleType::UnitLinear };
    let kernel = ParameterKind::Categorical { values: vec!["a".into(), "b".into(), "c".into()] };
    let parameters = [("rate", rate), ("depth", depth), ("kernel", kernel)];
    let parameters = parameters.map(|(name, kind)| ParameterSpec::new(name, kind).unwrap());
    let metrics = goals.iter().enumerate();
    let metrics = metrics.map(|(index, goal)| MetricSpec { name: format!("m{index}"), goal: *goal }).collect();
    ProblemStatement::new(SearchSpace::new(parameters.to_vec()).unwrap(), metrics).unwrap()
}

fn point(rate: f64, depth: i64, kernel: &str) -> ParameterValues {
    ParameterValues::from([
        ("rate".to_owned(), ParameterValue::Double(rate)),
        ("depth".to_owned(), ParameterValue::Integer(depth)),
        ("kernel".to_owned(), ParameterValue::Categorical(kernel.to_owned())),
    ])
}

fn row(rate: f64, depth: i64, kernel: &str, values: &[f64]) -> TableRow {
    TableRow {
        parameters: point(rate, depth, kernel),
        values: Some(values.to_vec()),
        duration_secs: None,
        curve: Vec::new(),
    }
}

fn error(row: TableRow) -> TableError {
    TableProblem::new("t", statement(&[Goal::Minimize]), vec![row]).unwrap_err()
}

#[test]
fn the_nearest_row_is_nearest_on_the_scale_of_each_parameter() {
    let rows = vec![row(1e-3, 1, "a", &[1.0]), row(1.0, 1, "a", &[2.0]), row(1e-3, 5, "a", &[3.0])];
    let problem = TableProblem::new("t", statement(&[Goal::Minimize]), rows).unwrap();
    // On a linear scale 0.02 is much nearer to 0.001 than to 1; on the log scale the distances are 1.3 and 1.7 decades.
    assert_eq!(problem.nearest(&point(0.02, 1, "a")), Ok(0));
    assert_eq!(problem.nearest(&point(0.04, 1, "a")), Ok(1));
    assert_eq!(problem.nearest(&point(1e-3, 4, "a")), Ok(2));
    assert_eq!(problem.evaluate(&point(1e-3, 4, "a"), DRAW), Evaluation::exact(3.0));
    assert!(matches!(problem.nearest(&point(2.0, 1, "a")), Err(EncodingError::Infeasible { .. })));
}

#[test]
fn another_level_has_distance_one_for_any_position_in_the_list() {
    // From (rate 0.0001, depth 1, b): the other level is at distance 1, the far rate at 1, the far corner at sqrt 2.
    let rows = vec![row(1.0, 5, "b", &[0.0]), row(1e-4, 1, "c", &[1.0]), row(1.0, 1, "b", &[2.0])];
    let problem = TableProblem::new("t", statement(&[Goal::Minimize]), rows).unwrap();
    assert_eq!(problem.nearest(&point(1e-4, 1, "b")), Ok(1));
    // Level a is two places from c and one from b, but equally far from both: the rate decides.
    assert_eq!(problem.nearest(&point(1e-4, 1, "a")), Ok(1));
    assert_eq!(problem.nearest(&point(0.5, 1, "a")), Ok(2));
}

#[test]
fn the_first_of_equally_near_rows_is_used() {
    let rows = vec![row(1e-2, 4, "a", &[1.0]), row(1e-2, 2, "a", &[2.0]), row(1e-2, 2, "a", &[3.0])];
    let problem = TableProblem::new("t", statement(&[Goal::Maximize]), rows).unwrap();
    assert_eq!(problem.nearest(&point(1e-2, 3, "a")), Ok(0));
    assert_eq!(problem.nearest(&point(1e-2, 2, "a")), Ok(1));
    assert_eq!(problem.rows(), 3);
}

#[test]
fn rows_that_violate_a_constraint_are_not_the_best() {
    let limits =
        vec![ConstraintSpec::new("time", Goal::Minimize, 2.0), ConstraintSpec::new("share", Goal::Maximize, 0.5)];
    let limited = |goals: &[Goal]| statement(goals).with_constraints(limits.clone()).unwrap();
    let rows = vec![
        row(0.1, 1, "a", &[1.0, 3.0, 0.75]),
        row(0.1, 2, "a", &[2.0, 2.0, 0.5]),
        row(0.1, 3, "a", &[4.0, 1.0, 0.25]),
        row(0.1, 4, "a", &[3.0, 1.5, 0.75]),
    ];
    let noisy = limited(&[Goal::Minimize]).with_observation_noise(ObservationNoise::High);
    let problem = TableProblem::new("t", noisy, rows.clone()).unwrap();
    assert_eq!(problem.profile().statement.observation_noise(), ObservationNoise::High);
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(2.0) });
    assert_eq!((problem.profile().constraints, problem.profile().statement.constraints().len()), (2, 0));
    let measured = |depth| match problem.evaluate(&point(0.1, depth, "a"), DRAW).outcome {
        EvaluationOutcome::Measured { observed, constraints, .. } => (observed, constraints),
        EvaluationOutcome::Infeasible { reason } => panic!("{reason}"),
    };
    // Constraints of a problem hold up to 0.
    assert_eq!(measured(1), (vec![1.0], vec![1.0, -0.25]));
    assert_eq!(measured(2), (vec![2.0], vec![0.0, 0.0]));
    assert_eq!(measured(3), (vec![4.0], vec![-1.0, 0.25]));
    let two = [Goal::Minimize, Goal::Maximize];
    let rows: Vec<TableRow> = rows
        .iter()
        .map(|row| {
            let values = row.values.as_ref().unwrap();
            TableRow { values: Some([&values[..1], &values[..1], &values[1..]].concat()), ..row.clone() }
        })
        .collect();
    let problem = TableProblem::new("t", limited(&two), rows).unwrap();
    let expected = Quality::Hypervolume { reference_point: vec![3.0, 2.0], best_known: None };
    assert_eq!(problem.quality(), &expected);
    let short = TableProblem::new("t", limited(&[Goal::Minimize]), vec![row(0.1, 1, "a", &[1.0, 3.0])]).unwrap_err();
    assert_eq!(short.to_string(), "row 0 has 2 values, but the problem has 3 metrics and constraints");
    let endless = row(0.1, 1, "a", &[1.0, f64::INFINITY, 1.0]);
    let endless = TableProblem::new("t", limited(&[Goal::Minimize]), vec![endless]).unwrap_err().to_string();
    assert!(endless.starts_with("row 0 has inf for metric \"time\""), "{endless}");
}

#[test]
fn the_best_known_value_depends_on_the_goal() {
    let infeasible = TableRow { values: None, ..row(0.1, 1, "a", &[]) };
    let rows = vec![row(0.1, 1, "a", &[0.25]), infeasible.clone(), row(0.1, 2, "a", &[-4.0])];
    let best = |goal| TableProblem::new("t", statement(&[goal]), rows.clone()).unwrap().quality().clone();
    assert_eq!(best(Goal::Minimize), Quality::Value { best_known: Some(-4.0) });
    assert_eq!(best(Goal::Maximize), Quality::Value { best_known: Some(0.25) });
    let none = TableProblem::new("t", statement(&[Goal::Minimize]), vec![infeasible]).unwrap();
    assert_eq!(none.quality(), &Quality::Value { best_known: None });
}

#[test]
fn the_reference_point_is_the_worst_of_each_metric() {
    let rows = vec![row(0.1, 1, "a", &[1.0, 5.0]), row(0.1, 2, "a", &[3.0, 7.0]), row(0.1, 3, "a", &[2.0, 6.0])];
    let problem = TableProblem::new("t", statement(&[Goal::Minimize, Goal::Maximize]), rows).unwrap();
    let expected = Quality::Hypervolume { reference_point: vec![3.0, 5.0], best_known: None };
    assert_eq!(problem.quality(), &expected);
}

#[test]
fn durations_curves_and_failures_are_replayed() {
    let curve = vec![(2, 0.9), (4, 0.7), (8, 0.5)];
    let rows = vec![
        TableRow { duration_secs: Some(6.0), curve, ..row(0.1, 1, "a", &[0.5]) },
        TableRow { values: None, duration_secs: Some(2.0), ..row(0.1, 3, "a", &[]) },
        row(0.1, 5, "a", &[0.3]),
    ];
    let problem = TableProblem::new("t", statement(&[Goal::Minimize]), rows).unwrap();
    let full = problem.evaluate(&point(0.1, 1, "a"), DRAW);
    assert_eq!(full.duration_secs, 6.0);
    let times: Vec<_> = full.curve.iter().map(|report| (report.step, report.elapsed_secs, report.value)).collect();
    assert_eq!(times, [(2, 1.5, 0.9), (4, 3.0, 0.7), (8, 6.0, 0.5)]);
    let failed = problem.evaluate(&point(0.1, 3, "a"), DRAW);
    assert_eq!(failed.outcome, EvaluationOutcome::Infeasible { reason: "recorded trial 2 was infeasible".into() });
    assert_eq!(failed.duration_secs, 2.0);
    // Without its own duration, the row gets the mean of the others.
    assert_eq!(problem.evaluate(&point(0.1, 5, "a"), DRAW).duration_secs, 4.0);
}

#[test]
fn a_space_of_one_point_uses_the_first_row() {
    let kind = ParameterKind::Categorical { values: vec!["only".into()] };
    let space = SearchSpace::new(vec![ParameterSpec::new("kernel", kind).unwrap()]).unwrap();
    let metric = MetricSpec { name: "m".into(), goal: Goal::Minimize };
    let point = ParameterValues::from([("kernel".to_owned(), ParameterValue::Categorical("only".into()))]);
    let row = |value| TableRow {
        parameters: point.clone(),
        values: Some(vec![value]),
        duration_secs: None,
        curve: Vec::new(),
    };
    let statement = ProblemStatement::new(space, vec![metric]).unwrap();
    let problem = TableProblem::new("t", statement, vec![row(2.0), row(1.0)]).unwrap();
    assert_eq!(problem.evaluate(&point, DRAW), Evaluation::exact(2.0));
}

#[test]
fn errors_name_the_invalid_row() {
    let none = TableProblem::new("t", statement(&[Goal::Minimize]), Vec::new()).unwrap_err();
    assert_eq!(none, TableError::NoRows);
    let outside = error(row(2.0, 1, "a", &[0.0]));
    assert!(matches!(outside, TableError::Point { row: 0, source: EncodingError::Infeasible { .. } }));
    assert_eq!(error(row(0.1, 1, "a", &[])), TableError::ValueCount { row: 0, count: 0, metrics: 1 });
    let infinite = TableError::NotFinite { row: 0, metric: "m0".into(), value: f64::INFINITY };
    assert_eq!(error(row(0.1, 1, "a", &[f64::INFINITY])), infinite);
    assert_eq!(error(TableRow { curve: vec![(1, f64::INFINITY)], ..row(0.1, 1, "a", &[1.0]) }), infinite);
    let instant = error(TableRow { duration_secs: Some(0.0), ..row(0.1, 1, "a", &[1.0]) });
    assert_eq!(instant, TableError::Duration { row: 0, duration_secs: 0.0 });
    let steps = error(TableRow { curve: vec![(1, 0.5), (3, 0.4), (3, 0.3)], ..row(0.1, 1, "a", &[1.0]) });
    assert_eq!(steps, TableError::Step { row: 0, step: 3, before: 3 });
    let zero = error(TableRow { curve: vec![(0, 0.5)], ..row(0.1, 1, "a", &[1.0]) });
    assert_eq!(zero.to_string(), "row 0 reports step 0 after step 0; steps start at 1 and increase");
}
