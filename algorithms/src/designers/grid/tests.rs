use super::*;
use crate::problem::{
    CompletedTrial, Goal, MetricSpec, ParameterSpec, PendingTrial, ScaleType, SearchSpace, TrialId, TrialOutcome,
};

const LINEAR: ScaleType = ScaleType::UnitLinear;

fn problem(kinds: Vec<(&str, ParameterKind)>) -> ProblemStatement {
    let parameters = kinds.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metric = MetricSpec { name: "y".into(), goal: Goal::Maximize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn integer(max: i64) -> ParameterKind {
    ParameterKind::Integer { min: 1, max, scale: LINEAR }
}

fn three_by_four_by_five() -> ProblemStatement {
    let levels = ["x", "y", "z"].map(str::to_owned).to_vec();
    problem(vec![
        ("b", ParameterKind::Discrete { values: vec![0.1, 0.2, 0.5, 1.0], scale: LINEAR }),
        ("a", ParameterKind::Categorical { values: levels }),
        ("c", integer(5)),
    ])
}

fn plain(problem: &ProblemStatement) -> GridSearch {
    GridSearch::new(problem, &BTreeMap::new()).unwrap()
}

fn failed(id: u64, parameters: ParameterValues) -> CompletedTrial {
    CompletedTrial { id: TrialId(id), parameters, outcome: TrialOutcome::Infeasible }
}

fn texts(suggestions: &[TrialSuggestion]) -> Vec<String> {
    let text = |suggestion: &TrialSuggestion| {
        suggestion.parameters.values().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    suggestions.iter().map(text).collect()
}

fn request(first: u64, count: usize) -> SuggestRequest {
    SuggestRequest { first_trial_id: TrialId(first), count: count.try_into().unwrap() }
}

#[test]
fn every_point_is_suggested_once_and_then_none() {
    let problem = three_by_four_by_five();
    let grid = plain(&problem);
    assert_eq!(grid.size(), Some(60));
    for at_once in [1, 8] {
        let mut pending: Vec<PendingTrial> = Vec::new();
        loop {
            let next = pending.len() as u64 + 1;
            let history = History { completed: &[], pending: &pending };
            let suggestions = grid.suggest(history, request(next, at_once)).unwrap();
            if suggestions.is_empty() {
                break;
            }
            for (suggestion, id) in suggestions.into_iter().zip(next..) {
                pending.push(PendingTrial { id: TrialId(id), parameters: suggestion.parameters });
            }
        }
        let mut seen: Vec<_> = pending.iter().map(|trial| format!("{:?}", trial.parameters)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), pending.len()), (60, 60));
    }
}

#[test]
fn order_is_by_number_and_does_not_depend_on_outcomes() {
    let problem = three_by_four_by_five();
    let grid = plain(&problem);
    let all = grid.suggest(History::default(), request(1, 7)).unwrap();
    assert_eq!(texts(&all), ["x 0.1 1", "x 0.1 2", "x 0.1 3", "x 0.1 4", "x 0.1 5", "x 0.2 1", "x 0.2 2"]);
    let completed: Vec<_> = all[..6].iter().zip(1..).map(|(point, id)| failed(id, point.parameters.clone())).collect();
    let next = grid.suggest(History { completed: &completed, pending: &[] }, request(7, 1)).unwrap();
    assert_eq!(next, all[6..]);
}

#[test]
fn used_points_are_skipped_and_no_point_is_left_out() {
    let problem = problem(vec![("k", integer(5))]);
    let grid = plain(&problem);
    let at = |k| ParameterValues::from([("k".to_owned(), ParameterValue::Integer(k))]);
    // User-supplied trials at points 4 and 2 come first; trial 3 would be point 3.
    let completed = [failed(1, at(4)), failed(2, at(2))];
    let rest = grid.suggest(History { completed: &completed, pending: &[] }, request(3, 9)).unwrap();
    assert_eq!(texts(&rest), ["3", "5", "1"]);
}

#[test]
fn doubles_need_a_resolution_and_are_evenly_spaced_on_their_scale() {
    let double = ParameterKind::Double { min: 1e-4, max: 1.0, scale: ScaleType::UnitLog };
    let problem = problem(vec![("rate", double), ("k", integer(2))]);
    let error = GridSearch::new(&problem, &BTreeMap::new()).unwrap_err();
    assert!(matches!(&error, DesignerError::Unsupported { reason, .. } if reason.contains("\"rate\"")), "{error}");
    let with = |resolution| GridSearch::new(&problem, &BTreeMap::from([("rate".to_owned(), resolution)]));
    let suggestions = with(5).unwrap().suggest(History::default(), request(1, 11)).unwrap();
    assert_eq!(suggestions.len(), 10);
    // The integer sorts first by name, so the double varies fastest.
    for (suggestion, exponent) in suggestions.iter().zip((-4..=0).cycle()) {
        let ParameterValue::Double(rate) = suggestion.parameters["rate"] else { panic!("expected a double") };
        assert!((rate / 10_f64.powi(exponent) - 1.0).abs() < 1e-12, "{rate}");
    }
    for wrong in [0, MAX_DOUBLE_RESOLUTION + 1] {
        assert!(matches!(with(wrong), Err(DesignerError::Unsupported { .. })));
    }
    for unknown in ["k", "momentum"] {
        let resolution = BTreeMap::from([("rate".to_owned(), 2), (unknown.to_owned(), 2)]);
        assert!(matches!(GridSearch::new(&problem, &resolution), Err(DesignerError::Unsupported { .. })));
    }
    // Used points of a double are recognised by their exact value.
    let completed: Vec<_> =
        suggestions.iter().zip(1..).map(|(point, id)| failed(id, point.parameters.clone())).collect();
    let history = History { completed: &completed, pending: &[] };
    assert_eq!(with(5).unwrap().suggest(history, request(11, 1)), Ok(vec![]));
}

#[test]
fn narrow_double_has_no_repeated_points() {
    let double = ParameterKind::Double { min: 1.0, max: 1.0_f64.next_up().next_up(), scale: LINEAR };
    let problem = problem(vec![("x", double)]);
    let grid = GridSearch::new(&problem, &BTreeMap::from([("x".to_owned(), 100)])).unwrap();
    assert_eq!(grid.size(), Some(3));
}

#[test]
fn powers_on_logarithmic_scales_are_exact() {
    use ScaleType::{UnitLog, UnitReverseLog};
    #[track_caller]
    fn check(scale: ScaleType, expected: &[f64]) {
        let (min, max) = (expected[0], expected[expected.len() - 1]);
        let problem = problem(vec![("x", ParameterKind::Double { min, max, scale })]);
        let resolution = BTreeMap::from([("x".to_owned(), expected.len() as u32)]);
        let grid = GridSearch::new(&problem, &resolution).unwrap();
        let points = grid.suggest(History::default(), request(1, expected.len())).unwrap();
        let value = |point: &TrialSuggestion| match point.parameters["x"] {
            ParameterValue::Double(value) => value,
            _ => panic!("expected a double"),
        };
        assert_eq!(points.iter().map(value).collect::<Vec<_>>(), expected);
    }
    check(UnitLog, &[1.0, 10.0, 100.0, 1000.0]);
    check(UnitLog, &[1e-4, 1e-3, 1e-2, 1e-1]);
    check(UnitLog, &[1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12]);
    check(UnitLog, &[1e-300, 1.0, 1e300]);
    check(UnitLog, &[16.0, 32.0, 64.0, 128.0, 256.0]);
    // The mirror image: 1001 less 1000, 100, 10 and 1.
    check(UnitReverseLog, &[1.0, 901.0, 991.0, 1000.0]);
    check(LINEAR, &[0.0, 0.1, 0.2, 0.3]);
    check(LINEAR, &[-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
    // Numbers without a short text stay as computed.
    check(UnitLog, &[1.0, 2.0_f64.sqrt().next_down(), 2.0]);
    check(LINEAR, &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
}

#[test]
fn huge_grids_are_not_listed_in_memory() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let problem = problem(names.map(|name| (name, integer(1_000_000))).to_vec());
    let grid = plain(&problem);
    assert_eq!(grid.size(), Some(10_u128.pow(36)));
    let used: Vec<_> = grid.suggest(History::default(), request(1, 100_000)).unwrap();
    let completed: Vec<_> = used.into_iter().zip(1..).map(|(point, id)| failed(id, point.parameters)).collect();
    let history = History { completed: &completed, pending: &[] };
    let next = grid.suggest(history, SuggestRequest::one(TrialId(100_001))).unwrap();
    assert_eq!(texts(&next), ["1 1 1 1 1 100001"]);
}
