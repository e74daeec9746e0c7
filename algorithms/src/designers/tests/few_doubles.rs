//! Doubles with so few representable numbers that a search exhausts them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use super::super::*;
use crate::designer::{Designer, History, SuggestRequest};
use crate::problem::{
    CompletedTrial, Condition, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement,
    ScaleType, SearchSpace, TrialId, TrialOutcome,
};

fn double(name: &str, min: f64, max: f64, scale: ScaleType) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Double { min, max, scale }).unwrap()
}

fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
    let metric = MetricSpec { name: "m".into(), goal: Goal::Minimize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn designers(problem: &ProblemStatement) -> Vec<(&'static str, Box<dyn Designer>)> {
    let mut designers: Vec<(&'static str, Box<dyn Designer>)> = vec![
        ("random", Box::new(RandomSearch::new(problem, 3))),
        ("quasi-random", Box::new(QuasiRandomSearch::new(problem, 3))),
        ("automatic", Box::new(Automatic::new(problem.clone(), 3).unwrap())),
        ("gp", Box::new(GpBandit::new(problem.clone(), 3).unwrap())),
        ("tpe", Box::new(TreeParzen::new(problem, 3).unwrap())),
    ];
    if let Ok(designer) = CmaEs::new(problem, 3) {
        designers.push(("cma-es", Box::new(designer)));
    }
    designers
}

/// Requests trials until the space is exhausted; all points must differ.
#[track_caller]
fn check(parameters: Vec<ParameterSpec>, points: usize) {
    let problem = problem(parameters);
    assert_eq!(problem.search_space().cardinality(), Some(points as u64));
    for (name, designer) in designers(&problem) {
        let (mut completed, mut seen) = (Vec::new(), BTreeSet::new());
        loop {
            let first_trial_id = TrialId(completed.len() as u64 + 1);
            let request = SuggestRequest { first_trial_id, count: NonZeroUsize::new(1 + completed.len() % 3).unwrap() };
            let suggestions = designer.suggest(History { completed: &completed, pending: &[] }, request);
            let suggestions = suggestions.unwrap_or_else(|error| panic!("{name}: {error}"));
            if suggestions.is_empty() {
                break;
            }
            for suggestion in suggestions {
                assert_eq!(problem.search_space().check(&suggestion.parameters), Ok(()), "{name}");
                assert!(seen.insert(format!("{:?}", suggestion.parameters)), "{name}: {:?}", suggestion.parameters);
                let id = TrialId(completed.len() as u64 + 1);
                let outcome = TrialOutcome::measured(vec![(id.0 as f64).sin()]);
                completed.push(CompletedTrial { id, parameters: suggestion.parameters, outcome });
            }
        }
        assert_eq!(seen.len(), points, "{name}");
    }
}

#[test]
fn every_representable_number_is_tried_once() {
    use ScaleType::{UnitLinear, UnitLog, UnitReverseLog};
    let next = 1.0_f64.next_up();
    check(vec![double("x", 1.0, next, UnitLinear)], 2);
    check(vec![double("x", 1.0, next, UnitLog), double("y", 1.0, next.next_up(), UnitReverseLog)], 6);
    // Subnormal numbers; zero of either sign counts once.
    check(vec![double("x", 0.0, 4e-323, UnitLinear)], 9);
    check(vec![double("x", -5e-324, 5e-324, UnitLinear)], 3);
    check(vec![double("x", 5e-324, 2e-323, UnitLog)], 4);
    check(vec![double("x", f64::MAX.next_down().next_down() / 2.0, f64::MAX / 2.0, UnitLinear)], 3);
    let level = ParameterKind::Categorical { values: vec!["a".into(), "b".into(), "c".into()] };
    check(vec![ParameterSpec::new("level", level).unwrap(), double("x", -next, -1.0, UnitLinear)], 6);
    let parent = ParameterKind::Integer { min: 1, max: 3, scale: UnitLinear };
    let only_with_two = Condition::new("k", vec![ParameterValue::Integer(2)]);
    let child = double("x", 1.0, next.next_up(), UnitLinear).with_condition(only_with_two);
    check(vec![ParameterSpec::new("k", parent).unwrap(), child], 5);
}

#[test]
fn more_numbers_than_a_grid_lists_are_tried_once() {
    let count = 1_100;
    let last = (1..count).fold(2.0_f64, |value, _| value.next_up());
    let problem = problem(vec![double("x", 2.0, last, ScaleType::UnitLog)]);
    let designer = RandomSearch::new(&problem, 5);
    let request = SuggestRequest { first_trial_id: TrialId::FIRST, count: NonZeroUsize::new(2 * count).unwrap() };
    let suggestions = designer.suggest(History::default(), request).unwrap();
    let seen: BTreeSet<String> = suggestions.iter().map(|one| format!("{:?}", one.parameters)).collect();
    assert_eq!((suggestions.len(), seen.len()), (count, count));
}

#[test]
fn reverse_log_that_doubles_cannot_resolve_repeats_and_does_not_fail() {
    let problem = problem(vec![double("x", 1e-300, 1e300, ScaleType::UnitReverseLog)]);
    for (name, designer) in designers(&problem) {
        let mut completed = Vec::new();
        for id in 1..=12 {
            let history = History { completed: &completed, pending: &[] };
            let suggestions = designer.suggest(history, SuggestRequest::one(TrialId(id)));
            let suggestions = suggestions.unwrap_or_else(|error| panic!("{name}: {error}"));
            let [suggestion] = &suggestions[..] else { panic!("{name}: {suggestions:?}") };
            let outcome = TrialOutcome::measured(vec![1.0]);
            completed.push(CompletedTrial { id: TrialId(id), parameters: suggestion.parameters.clone(), outcome });
        }
    }
}

#[test]
fn grid_over_few_numbers_keeps_its_resolution() {
    let last = 1.0_f64.next_up().next_up().next_up().next_up();
    let problem = problem(vec![double("x", 1.0, last, ScaleType::UnitLinear)]);
    let size = |resolution| GridSearch::new(&problem, &BTreeMap::from([("x".to_owned(), resolution)])).unwrap().size();
    assert_eq!((size(2), size(3), size(100)), (Some(2), Some(3), Some(5)));
    assert!(GridSearch::new(&problem, &BTreeMap::new()).is_err());
}
