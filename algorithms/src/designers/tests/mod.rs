//! The contract for all designers, and specific properties of the simple ones.

mod few_doubles;
mod repeating;
mod robustness;

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

use super::*;
use crate::designer::{Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::problem::{
    AlgorithmName, CompletedTrial, Goal, MetricSpec, Origin, ParameterKind, ParameterPrior, ParameterSpec,
    ParameterValue, PendingTrial, ProblemStatement, ScaleType, SearchSpace, TrialId, TrialOutcome, TrialSuggestion,
};
use crate::testing::designer_contract;

#[test]
fn random_search_satisfies_the_contract() {
    designer_contract(|problem, seed| Ok(Box::new(RandomSearch::new(problem, seed))));
}

#[test]
fn quasi_random_search_satisfies_the_contract() {
    designer_contract(|problem, seed| Ok(Box::new(QuasiRandomSearch::new(problem, seed))));
}

#[test]
fn gp_bandit_satisfies_the_contract() {
    designer_contract(|problem, seed| Ok(Box::new(GpBandit::new(problem.clone(), seed)?)));
}

#[test]
fn tree_parzen_satisfies_the_contract() {
    designer_contract(|problem, seed| Ok(Box::new(TreeParzen::new(problem, seed)?)));
}

#[test]
fn cma_es_satisfies_the_contract() {
    designer_contract(|problem, seed| Ok(Box::new(CmaEs::new(problem, seed)?)));
}

#[test]
fn grid_search_satisfies_the_contract() {
    designer_contract(|problem, _seed| Ok(Box::new(GridSearch::new(problem, &BTreeMap::new())?)));
}

fn designers(problem: &ProblemStatement, seed: u64) -> [Box<dyn Designer>; 2] {
    [Box::new(RandomSearch::new(problem, seed)), Box::new(QuasiRandomSearch::new(problem, seed))]
}

fn problem(kinds: Vec<(&str, ParameterKind)>) -> ProblemStatement {
    let parameters = kinds.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metric = MetricSpec { name: "y".into(), goal: Goal::Maximize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn integer(min: i64, max: i64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Integer { min, max, scale }
}

fn pending(suggestions: Vec<TrialSuggestion>, first: u64) -> Vec<PendingTrial> {
    let trial =
        |(suggestion, id): (TrialSuggestion, u64)| PendingTrial { id: TrialId(id), parameters: suggestion.parameters };
    suggestions.into_iter().zip(first..).map(trial).collect()
}

#[test]
fn finite_space_is_exhausted_without_repeats() {
    // Log scales make some points far more likely than others, but all must be suggested eventually.
    let problem =
        problem(vec![("a", integer(1, 100, ScaleType::UnitLog)), ("b", integer(1, 100, ScaleType::UnitReverseLog))]);
    let encoding = Encoding::new(problem.search_space());
    for designer in designers(&problem, 3) {
        let request =
            |first, count| SuggestRequest { first_trial_id: TrialId(first), count: NonZeroUsize::new(count).unwrap() };
        let mut trials = Vec::new();
        while trials.len() < 10_000 {
            let first = trials.len() as u64 + 1;
            let history = History { completed: &[], pending: &trials };
            let suggestions = designer.suggest(history, request(first, 625)).unwrap();
            assert_eq!(suggestions.len(), 625);
            trials.extend(pending(suggestions, first));
        }
        let keys: HashSet<_> = trials.iter().map(|trial| encoding.key(&trial.parameters).unwrap()).collect();
        assert_eq!(keys.len(), 10_000);
        let last = trials.pop().unwrap();
        let one_left = History { completed: &[], pending: &trials };
        let suggestions = designer.suggest(one_left, request(10_000, 5)).unwrap();
        assert_eq!(
            suggestions,
            [TrialSuggestion { parameters: last.parameters.clone(), origin: suggestions[0].origin }]
        );
        trials.push(last);
        let none_left = History { completed: &[], pending: &trials };
        assert_eq!(designer.suggest(none_left, request(10_001, 5)), Ok(vec![]));
    }
}

#[test]
fn foreign_trials_are_reported_by_id() {
    let problem = problem(vec![("a", integer(1, 3, ScaleType::UnitLinear))]);
    let parameters = [("a".to_owned(), ParameterValue::Integer(4))].into();
    let foreign = [PendingTrial { id: TrialId(5), parameters }];
    for designer in designers(&problem, 1) {
        let history = History { completed: &[], pending: &foreign };
        let error = designer.suggest(history, SuggestRequest::one(TrialId(6))).unwrap_err();
        assert_eq!(
            error,
            DesignerError::ForeignTrial {
                trial: TrialId(5),
                reason: "value 4 of parameter \"a\" lies outside the search space".into()
            }
        );
    }
}

/// A seed gives the same sequence in every process and release, so that a study resumed after an update continues
/// unchanged. If this test fails, that guarantee is broken, and the changelog must state it.
#[test]
fn sequences_of_a_seed_do_not_change_between_releases() {
    let levels = ["relu", "tanh", "elu"].map(str::to_owned).to_vec();
    let problem = problem(vec![
        ("dropout", ParameterKind::Discrete { values: vec![0.0, 0.1, 0.25, 0.5], scale: ScaleType::UnitLinear }),
        ("units", integer(1, 512, ScaleType::UnitLog)),
        ("activation", ParameterKind::Categorical { values: levels }),
        ("momentum", ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear }),
    ]);
    let texts = designers(&problem, 2026).map(|designer| {
        let request = SuggestRequest { first_trial_id: TrialId(1), count: NonZeroUsize::new(3).unwrap() };
        let suggestions = designer.suggest(History::default(), request).unwrap();
        let text = |suggestion: &TrialSuggestion| {
            suggestion.parameters.values().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        suggestions.iter().map(text).collect::<Vec<_>>()
    });
    let random = ["tanh 0 0.7939644541363816 2", "relu 0.1 0.8669234667389636 28", "elu 0.1 0.3422835874719671 74"];
    let quasi_random =
        ["elu 0.25 0.36378313560474207 96", "tanh 0 0.6552965031586233 1", "tanh 0.5 0.20016456906018018 32"];
    assert_eq!(texts, [random, quasi_random]);
}

fn with_priors(problem: &ProblemStatement) -> ProblemStatement {
    let with_prior = |spec: &ParameterSpec| {
        let normal = |mode| ParameterPrior::Normal { mode, spread: 0.2 };
        let prior = match spec.kind() {
            ParameterKind::Double { min, .. } => normal(ParameterValue::Double(*min)),
            ParameterKind::Integer { max, .. } => normal(ParameterValue::Integer(*max)),
            ParameterKind::Discrete { values, .. } => normal(ParameterValue::Discrete(values[0])),
            ParameterKind::Categorical { values } => {
                let weight =
                    |level: &String| (ParameterValue::Categorical(level.clone()), 1.0 + f64::from(level.as_bytes()[0]));
                ParameterPrior::Weights(values.iter().map(weight).collect())
            }
        };
        spec.clone().with_prior(prior).unwrap()
    };
    let parameters = problem.search_space().parameters().iter().map(with_prior).collect();
    let space = SearchSpace::new(parameters).unwrap();
    let guided = ProblemStatement::new(space, problem.metrics().to_vec()).unwrap();
    guided.with_constraints(problem.constraints().to_vec()).unwrap()
}

#[test]
fn designers_satisfy_the_contract_with_priors() {
    designer_contract(|problem, seed| Ok(Box::new(RandomSearch::new(&with_priors(problem), seed))));
    designer_contract(|problem, seed| Ok(Box::new(GpBandit::new(with_priors(problem), seed)?)));
    designer_contract(|problem, seed| Ok(Box::new(TreeParzen::new(&with_priors(problem), seed)?)));
}

#[test]
fn priors_affect_exactly_the_designers_that_declare_it() {
    let double = || ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let plain = problem(vec![("x", double()), ("y", integer(1, 40, ScaleType::UnitLinear))]);
    type Factory = dyn Fn(&ProblemStatement) -> Box<dyn Designer>;
    let all: [&Factory; 7] = [
        &|problem| Box::new(Automatic::new(problem.clone(), 1).unwrap()),
        &|problem| Box::new(GpBandit::new(problem.clone(), 1).unwrap()),
        &|problem| Box::new(TreeParzen::new(problem, 1).unwrap()),
        &|problem| Box::new(RandomSearch::new(problem, 1)),
        &|problem| Box::new(QuasiRandomSearch::new(problem, 1)),
        &|problem| Box::new(CmaEs::new(problem, 1).unwrap()),
        &|problem| Box::new(GridSearch::new(problem, &[("x".to_owned(), 5)].into()).unwrap()),
    ];
    let trial = |id: u64| {
        let (x, y) = ((id as f64 * 0.618).fract(), 1 + (id * 17 % 40) as i64);
        let values = vec![-(x - 0.4).powi(2) - (y as f64 / 40.0 - 0.6).powi(2)];
        let x = ("x".to_owned(), ParameterValue::Double(x));
        CompletedTrial {
            id: TrialId(id),
            parameters: [x, ("y".to_owned(), ParameterValue::Integer(y))].into(),
            outcome: TrialOutcome::measured(values),
        }
    };
    let priors: Vec<bool> = all
        .iter()
        .map(|designer| {
            let (without, with) = (designer(&plain), designer(&with_priors(&plain)));
            for trials in [0, 20] {
                let completed: Vec<CompletedTrial> = (1..=trials).map(trial).collect();
                let history = History { completed: &completed, pending: &[] };
                let next =
                    |designer: &dyn Designer| designer.suggest(history, SuggestRequest::one(TrialId(trials + 1)));
                let (with_priors, without) = (next(&*with).unwrap(), next(&*without).unwrap());
                assert_eq!(with_priors != without, with.capabilities().priors, "{with_priors:?} {without:?}");
            }
            with.capabilities().priors
        })
        .collect();
    assert_eq!(priors, [true, true, true, true, false, false, false]);
}

/// The first trial of a search with priors is at their modes, and random draws are distributed around them.
#[test]
fn priors_determine_the_first_trial_and_random_draws() {
    let unit = || ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let plain = problem(vec![("x", unit()), ("y", unit())]);
    let guided = with_priors(&plain);
    let first = |designer: &dyn Designer| {
        designer.suggest(History::default(), SuggestRequest::one(TrialId(1))).unwrap().remove(0).parameters
    };
    let designer = GpBandit::new(guided.clone(), 1).unwrap();
    let mode = ParameterValue::Double(0.0);
    assert_eq!(first(&designer), [("x".to_owned(), mode.clone()), ("y".to_owned(), mode)].into());
    let request = SuggestRequest { first_trial_id: TrialId(1), count: NonZeroUsize::new(1000).unwrap() };
    let drawn = RandomSearch::new(&guided, 1).suggest(History::default(), request).unwrap();
    let near =
        |suggestion: &TrialSuggestion| matches!(suggestion.parameters["x"], ParameterValue::Double(x) if x < 0.2);
    // Two thirds of a half normal lie within one deviation: 683 of 1000, with a deviation of 15.
    let count = drawn.iter().filter(|suggestion| near(suggestion)).count();
    assert!((630..=730).contains(&count), "{count}");
}

#[test]
fn initial_points_are_suggested_first_once_and_in_order() {
    let problem =
        problem(vec![("a", integer(1, 3, ScaleType::UnitLinear)), ("b", integer(1, 2, ScaleType::UnitLinear))]);
    let point =
        |a, b| [("a".to_owned(), ParameterValue::Integer(a)), ("b".to_owned(), ParameterValue::Integer(b))].into();
    let points: Vec<crate::problem::ParameterValues> = vec![point(3, 1), point(1, 1), point(3, 1), point(2, 2)];
    let grid = || Box::new(GridSearch::new(&problem, &BTreeMap::new()).unwrap());
    let designer = InitialPoints::new(&problem, points.clone(), grid()).unwrap();
    let all = SuggestRequest { first_trial_id: TrialId(1), count: NonZeroUsize::new(9).unwrap() };
    let parameters = |suggestions: Vec<TrialSuggestion>| -> Vec<_> {
        suggestions.into_iter().map(|suggestion| suggestion.parameters).collect()
    };
    let found = designer.suggest(History::default(), all).unwrap();
    let origins: Vec<Origin> = found.iter().map(|suggestion| suggestion.origin).collect();
    assert_eq!(origins[..3], [Origin::of(AlgorithmName::InitialTrials); 3]);
    assert_eq!(origins[3..], [Origin::of(AlgorithmName::GridSearch); 3]);
    let found = parameters(found);
    assert_eq!(found[..3], [point(3, 1), point(1, 1), point(2, 2)]);
    let different: HashSet<String> = found.iter().map(|point| format!("{point:?}")).collect();
    assert_eq!((found.len(), different.len()), (6, 6), "{found:?}");
    // A trial at a later point does not shift the other points.
    let known = [PendingTrial { id: TrialId(1), parameters: point(1, 1) }];
    let history = History { completed: &[], pending: &known };
    let next = SuggestRequest { first_trial_id: TrialId(2), count: NonZeroUsize::new(2).unwrap() };
    assert_eq!(parameters(designer.suggest(history, next).unwrap()), [point(3, 1), point(2, 2)]);
    let outside = InitialPoints::new(&problem, vec![points[0].clone(), point(4, 1)], grid());
    assert_eq!(outside.err().map(|(index, _)| index), Some(1));
}

#[test]
fn designers_satisfy_the_contract_behind_initial_points() {
    designer_contract(|problem, seed| {
        let first = completed_point(problem, &BTreeMap::new()).unwrap();
        let designer = Box::new(GpBandit::new(problem.clone(), seed)?);
        Ok(Box::new(InitialPoints::new(problem, vec![first], designer).unwrap()))
    });
}

#[test]
fn partial_points_are_completed_with_the_middle_or_the_mode() {
    let unit = |max| ParameterKind::Double { min: 1e-4, max, scale: ScaleType::UnitLog };
    let plain = problem(vec![("x", unit(1.0)), ("y", unit(1e-2)), ("k", integer(1, 4, ScaleType::UnitLinear))]);
    let given = [("k".to_owned(), ParameterValue::Integer(4))].into();
    let value = |problem: &ProblemStatement, name: &str| match completed_point(problem, &given).unwrap()[name] {
        ParameterValue::Double(value) => value,
        ParameterValue::Integer(value) => value as f64,
        _ => f64::NAN,
    };
    assert!((value(&plain, "x") - 1e-2).abs() < 1e-12 && (value(&plain, "y") - 1e-3).abs() < 1e-12);
    assert_eq!(value(&plain, "k"), 4.0);
    assert_eq!(value(&with_priors(&plain), "x"), 1e-4);
    let unknown = [("z".to_owned(), ParameterValue::Integer(4))].into();
    assert!(completed_point(&plain, &unknown).is_err());
}

#[test]
fn points_alone_give_the_suggestions_of_the_whole_history() {
    let wide = ParameterKind::Integer { min: 0, max: i64::MAX, scale: ScaleType::UnitLinear };
    let double = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let small = problem(vec![("a", integer(1, 4, ScaleType::UnitLinear)), ("b", integer(1, 5, ScaleType::UnitLinear))]);
    let uncountable = problem(vec![("a", wide.clone()), ("b", wide.clone()), ("c", wide)]);
    let infinite = problem(vec![("a", integer(1, 4, ScaleType::UnitLinear)), ("x", double)]);
    for problem in [small, uncountable, infinite] {
        let grid = GridSearch::new(
            &problem,
            &BTreeMap::from([("x".to_owned(), 3)])
                .into_iter()
                .filter(|_| problem.search_space().parameters().iter().any(|spec| spec.name() == "x"))
                .collect(),
        )
        .unwrap();
        let [random, quasi_random] = designers(&problem, 3);
        let encoding = Encoding::new(problem.search_space());
        let initial = vec![
            encoding.decode(&vec![1.0; encoding.dimensions()]),
            encoding.decode(&vec![0.5; encoding.dimensions()]),
        ];
        let with_initial = InitialPoints::new(&problem, initial, Box::new(RandomSearch::new(&problem, 3))).unwrap();
        let all: [Box<dyn Designer>; 4] = [random, quasi_random, Box::new(grid), Box::new(with_initial)];
        for (index, designer) in all.iter().enumerate() {
            let by_points = designer.by_points().unwrap();
            let (mut trials, mut used) = (Vec::new(), UsedPoints::default());
            for count in [1, 3, 1, 7, 20] {
                let first_trial_id = TrialId(trials.len() as u64 + 1);
                let request = SuggestRequest { first_trial_id, count: NonZeroUsize::new(count).unwrap() };
                let whole = designer.suggest(History { completed: &[], pending: &trials }, request).unwrap();
                assert_eq!(by_points.suggest_unused(&mut used, request), whole, "designer {index}");
                trials.extend(pending(whole, first_trial_id.0));
            }
            let mut counted = UsedPoints::default();
            for number in trials.iter().filter_map(|trial| by_points.number(&trial.parameters).unwrap()) {
                assert!(counted.insert(number), "designer {index} repeats a point");
            }
            assert_eq!(counted.len(), used.len());
        }
    }
}
