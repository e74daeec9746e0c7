//! Robustness of the learning algorithms with extreme objectives, extreme spaces and random input: no panic, no error,
//! and the requested number of points, all inside the space.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::super::*;
use crate::designer::{Designer, History, SuggestRequest};
use crate::problem::{
    CompletedTrial, Condition, Fidelity, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue,
    ParameterValues, PendingTrial, ProblemStatement, ScaleType, SearchSpace, TrialId, TrialOutcome,
};

const SEED: u64 = 11;

fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
    let metric = MetricSpec { name: "m".into(), goal: Goal::Minimize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn parameter(name: &str, kind: ParameterKind) -> ParameterSpec {
    ParameterSpec::new(name, kind).unwrap()
}

fn double(name: &str) -> ParameterSpec {
    parameter(name, ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear })
}

fn integer(name: &str, max: i64) -> ParameterSpec {
    parameter(name, ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear })
}

fn categorical(name: &str, levels: usize) -> ParameterSpec {
    parameter(name, ParameterKind::Categorical { values: (0..levels).map(|level| format!("l{level}")).collect() })
}

/// Two doubles, an integer and a categorical parameter.
fn mixed() -> ProblemStatement {
    problem(vec![double("a"), double("b"), integer("c", 9), categorical("d", 3)])
}

fn learners(problem: &ProblemStatement) -> Vec<Box<dyn Designer>> {
    let mut learners: Vec<Box<dyn Designer>> = vec![
        Box::new(GpBandit::new(problem.clone(), SEED).unwrap()),
        Box::new(TreeParzen::new(problem, SEED).unwrap()),
    ];
    if let Ok(designer) = CmaEs::new(problem, SEED) {
        learners.push(Box::new(designer));
    }
    learners
}

fn measured(value: f64) -> TrialOutcome {
    TrialOutcome::measured(vec![value])
}

fn request(first: u64, count: usize) -> SuggestRequest {
    SuggestRequest { first_trial_id: TrialId(first), count: NonZeroUsize::new(count).unwrap() }
}

/// Next points of `designer`, checked to be inside the space.
fn checked(
    problem: &ProblemStatement,
    designer: &dyn Designer,
    completed: &[CompletedTrial],
    count: usize,
) -> Vec<ParameterValues> {
    let history = History { completed, pending: &[] };
    let suggestions = designer.suggest(history, request(completed.len() as u64 + 1, count)).unwrap();
    assert_eq!(suggestions.len(), count);
    for suggestion in &suggestions {
        assert_eq!(problem.search_space().check(&suggestion.parameters), Ok(()), "{:?}", suggestion.parameters);
    }
    suggestions.into_iter().map(|suggestion| suggestion.parameters).collect()
}

/// `random` trials at random points with `outcome` by index.
fn history(problem: &ProblemStatement, random: usize, outcome: impl Fn(usize) -> TrialOutcome) -> Vec<CompletedTrial> {
    let points = RandomSearch::new(problem, SEED).suggest(History::default(), request(1, random)).unwrap();
    let trial =
        |(index, parameters)| CompletedTrial { id: TrialId(index as u64 + 1), parameters, outcome: outcome(index) };
    points.into_iter().map(|suggestion| suggestion.parameters).enumerate().map(trial).collect()
}

/// Every learning designer suggests after `random` trials with this outcome, and again after its suggestions had the
/// same outcome.
fn check_suggestions_after(problem: &ProblemStatement, random: usize, outcome: impl Fn(usize) -> TrialOutcome) {
    for designer in learners(problem) {
        let mut completed = history(problem, random, &outcome);
        for _ in 0..2 {
            for parameters in checked(problem, &*designer, &completed, 3) {
                let index = completed.len();
                completed.push(CompletedTrial { id: TrialId(index as u64 + 1), parameters, outcome: outcome(index) });
            }
        }
        checked(problem, &*designer, &completed, 1);
    }
}

#[test]
fn constant_objectives() {
    check_suggestions_after(&mixed(), 30, |_| measured(3.0));
    check_suggestions_after(&mixed(), 30, |_| measured(0.0));
    check_suggestions_after(&mixed(), 30, |index| measured(if index == 20 { 3.0_f64.next_up() } else { 3.0 }));
}

#[test]
fn objectives_over_thirty_decades() {
    let decades = |index: usize| 10.0_f64.powf((index * 7 % 31) as f64 - 15.0);
    check_suggestions_after(&mixed(), 31, |index| measured(decades(index)));
    check_suggestions_after(&mixed(), 31, |index| measured(-decades(index)));
    check_suggestions_after(&mixed(), 31, |index| measured(decades(index) * if index % 2 == 0 { 1.0 } else { -1.0 }));
}

#[test]
fn differences_in_the_twelfth_decimal() {
    check_suggestions_after(&mixed(), 30, |index| measured(1.0 + 1e-12 * (index as f64).sin()));
    check_suggestions_after(&mixed(), 30, |index| measured(-1e-12 * (index as f64).sin()));
}

#[test]
fn all_trials_failed() {
    check_suggestions_after(&mixed(), 30, |_| TrialOutcome::Infeasible);
    check_suggestions_after(&mixed(), 30, |index| measured(if index % 2 == 0 { f64::NAN } else { f64::INFINITY }));
    check_suggestions_after(&mixed(), 30, |index| if index == 17 { measured(1.0) } else { TrialOutcome::Infeasible });
}

#[test]
fn parameters_of_one_value() {
    let narrow = ParameterKind::Double { min: 0.5, max: 0.5, scale: ScaleType::UnitLog };
    let single = ParameterKind::Discrete { values: vec![7.0], scale: ScaleType::UnitLinear };
    let fixed = [parameter("e", narrow), parameter("f", single), integer("g", 1), categorical("h", 1)];
    let together = problem(mixed().search_space().parameters().iter().cloned().chain(fixed.clone()).collect());
    check_suggestions_after(&together, 20, |index| measured((index as f64).sin()));
    let alone = problem(fixed.to_vec());
    for designer in learners(&alone) {
        let point = checked(&alone, &*designer, &[], 1).remove(0);
        let used = [CompletedTrial { id: TrialId(1), parameters: point, outcome: measured(1.0) }];
        let history = History { completed: &used, pending: &[] };
        assert_eq!(designer.suggest(history, request(2, 3)).unwrap(), []);
    }
}

#[test]
fn a_hundred_parameters() {
    let kinds: [fn(&str) -> ParameterSpec; 4] =
        [double, |name| integer(name, 5), |name| categorical(name, 4), |name| integer(name, 1_000_000)];
    let many = problem((0..100).map(|j| kinds[j % 4](&format!("p{j:02}"))).collect());
    check_suggestions_after(&many, 25, |index| measured((index as f64).sin()));
}

#[test]
fn a_category_of_a_thousand_levels() {
    check_suggestions_after(&problem(vec![double("a"), categorical("b", 1000)]), 25, |index| {
        measured((index as f64).sin())
    });
    check_suggestions_after(&problem(vec![categorical("b", 1000)]), 25, |index| measured((index as f64).sin()));
}

/// Ten thousand trials of one point with different results, among a few others.
#[test]
fn ten_thousand_trials_of_one_point() {
    let mixed = mixed();
    for designer in learners(&mixed) {
        let mut completed = history(&mixed, 20, |index| measured((index as f64).cos()));
        let point = completed[0].parameters.clone();
        completed.extend((20..10_020_u64).map(|index| CompletedTrial {
            id: TrialId(index + 1),
            parameters: point.clone(),
            outcome: measured(1.0 + 0.1 * (index as f64).sin()),
        }));
        let found = checked(&mixed, &*designer, &completed, 2);
        assert!(found.iter().all(|other| *other != point), "the point is repeated");
    }
}

/// Random parameter: kind, number of values, scale, whether it has a parent, which one, and for which of the parent's
/// first eight values it is active (one bit each).
type Recipe = (u8, u8, u8, bool, prop::sample::Index, u8);

/// Parameters of some recipes, each after its parent.
fn parameters(recipes: &[Recipe]) -> Vec<ParameterSpec> {
    let mut specs: Vec<ParameterSpec> = Vec::new();
    for (number, (kind, size, scale, has_parent, parent, active)) in recipes.iter().enumerate() {
        let scale = [ScaleType::UnitLinear, ScaleType::UnitLog, ScaleType::UnitReverseLog][usize::from(scale % 3)];
        let size = *size;
        let kind = match kind {
            0 => ParameterKind::Integer { min: 2, max: 1 + i64::from(size), scale },
            1 => ParameterKind::Integer { min: 1, max: 1 << (20 + 4 * size), scale },
            2 => ParameterKind::Discrete { values: (1..=size).map(|i| 0.25 * f64::from(i)).collect(), scale },
            3 => ParameterKind::Categorical { values: (0..size).map(|i| format!("l{i}")).collect() },
            4 => ParameterKind::Double { min: 1e-9, max: 1e9, scale },
            _ => ParameterKind::Double { min: -3.0, max: 4.0, scale: ScaleType::UnitLinear },
        };
        let spec = parameter(&format!("p{}", (number * 7 + 3) % 10), kind);
        let parents: Vec<&ParameterSpec> = specs.iter().filter(|spec| !first_values(spec.kind()).is_empty()).collect();
        if !has_parent || parents.is_empty() {
            specs.push(spec);
            continue;
        }
        let parent = parents[parent.index(parents.len())];
        let values = first_values(parent.kind());
        let mut chosen: Vec<_> = values
            .iter()
            .enumerate()
            .filter(|(bit, _)| active >> bit & 1 == 1)
            .map(|(_, value)| value.clone())
            .collect();
        if chosen.is_empty() {
            chosen.push(values[0].clone());
        }
        let condition = Condition::new(parent.name(), chosen);
        specs.push(spec.with_condition(condition));
    }
    specs
}

/// Up to eight values for conditions of children.
fn first_values(kind: &ParameterKind) -> Vec<ParameterValue> {
    match kind {
        ParameterKind::Integer { min, max, .. } => (*min..=*max).take(8).map(ParameterValue::Integer).collect(),
        ParameterKind::Discrete { values, .. } => values.iter().map(|value| ParameterValue::Discrete(*value)).collect(),
        ParameterKind::Categorical { values } => values.iter().cloned().map(ParameterValue::Categorical).collect(),
        ParameterKind::Double { .. } => vec![],
    }
}

fn problems() -> impl Strategy<Value = ProblemStatement> {
    let recipe = (0..6_u8, 1..=6_u8, 0..3_u8, any::<bool>(), any::<prop::sample::Index>(), any::<u8>());
    prop::collection::vec(recipe, 1..7).prop_map(|recipes| problem(parameters(&recipes)))
}

/// `None` if the trial is pending.
fn outcomes() -> impl Strategy<Value = Option<TrialOutcome>> {
    prop_oneof![
        6 => (-2.0..2.0_f64).prop_map(|value| Some(measured(value))),
        1 => any::<f64>().prop_map(|value| Some(measured(value))),
        1 => Just(Some(measured(0.5))),
        1 => Just(Some(TrialOutcome::Infeasible)),
        1 => (-2.0..2.0_f64)
            .prop_map(|value| Some(TrialOutcome::Measured { values: vec![value], fidelity: Fidelity::Partial })),
        1 => (-2.0..2.0_f64, 0.0..f64::MAX).prop_map(|(value, deviation)| {
            Some(TrialOutcome::Measured { values: vec![value], fidelity: Fidelity::Predicted { deviation } })
        }),
        1 => Just(None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every kind of parameter, including conditional ones, every kind of outcome, and any number as a value.
    #[test]
    fn any_history_gets_suggestions_inside_the_space(
        problem in problems(),
        outcomes in prop::collection::vec(outcomes(), 1..30),
        count in 1..4_usize,
    ) {
        let space = problem.search_space();
        let points = RandomSearch::new(&problem, SEED).suggest(History::default(), request(1, outcomes.len())).unwrap();
        let (mut completed, mut pending) = (Vec::new(), Vec::new());
        let used = points.len();
        for ((suggestion, outcome), number) in points.into_iter().zip(outcomes).zip(1..) {
            let (id, parameters) = (TrialId(number), suggestion.parameters);
            match outcome {
                Some(outcome) => completed.push(CompletedTrial { id, parameters, outcome }),
                None => pending.push(PendingTrial { id, parameters }),
            }
        }
        let left = space.cardinality().map_or(count, |all| count.min(all as usize - used));
        for designer in learners(&problem) {
            let history = History { completed: &completed, pending: &pending };
            let suggestions = designer.suggest(history, request(used as u64 + 1, count));
            prop_assert!(suggestions.is_ok(), "{suggestions:?}");
            let suggestions = suggestions.unwrap_or_default();
            prop_assert_eq!(suggestions.len(), left);
            for suggestion in suggestions {
                prop_assert_eq!(space.check(&suggestion.parameters), Ok(()));
            }
        }
    }
}
