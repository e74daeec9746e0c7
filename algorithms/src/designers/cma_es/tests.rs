//! The tutorial's constants, invariances, convergence, and properties of the replay.

use std::num::NonZeroUsize;

use nalgebra::{DMatrix, DVector};
use rand_distr::{Distribution as _, StandardNormal};

use super::constants::Constants;
use super::distribution::Distribution;
use super::replay::Replay;
use super::*;
use crate::problem::{
    CompletedTrial, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, PendingTrial, ScaleType,
    SearchSpace,
};

fn problem(kinds: &[(&str, ParameterKind)]) -> ProblemStatement {
    let parameters = kinds.iter().map(|(name, kind)| ParameterSpec::new(*name, kind.clone()).unwrap()).collect();
    let metric = MetricSpec { name: "y".into(), goal: Goal::Minimize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn doubles(count: usize) -> ProblemStatement {
    let kind = ParameterKind::Double { min: -5.0, max: 5.0, scale: ScaleType::UnitLinear };
    let names: Vec<String> = (0..count).map(|j| format!("x{j}")).collect();
    problem(&names.iter().map(|name| (&**name, kind.clone())).collect::<Vec<_>>())
}

fn numbers(values: &ParameterValues) -> Vec<f64> {
    let number = |value: &ParameterValue| match value {
        ParameterValue::Double(x) | ParameterValue::Discrete(x) => *x,
        ParameterValue::Integer(k) => *k as f64,
        ParameterValue::Categorical(level) => panic!("{level} is not a number"),
    };
    values.values().map(number).collect()
}

fn measured(id: TrialId, parameters: ParameterValues, value: f64) -> CompletedTrial {
    CompletedTrial { id, parameters, outcome: TrialOutcome::measured(vec![value]) }
}

/// History after `budget` trials, one generation of the first run at a time.
fn run(problem: &ProblemStatement, seed: u64, budget: u64, objective: impl Fn(&[f64]) -> f64) -> Vec<CompletedTrial> {
    let designer = CmaEs::new(problem, seed).unwrap();
    let generation = Constants::default_population(designer.ranges.len()) as u64;
    let mut completed: Vec<CompletedTrial> = vec![];
    while (completed.len() as u64) < budget {
        let first = completed.len() as u64 + 1;
        let count = NonZeroUsize::new(generation.min(budget + 1 - first) as usize).unwrap();
        let request = SuggestRequest { first_trial_id: TrialId(first), count };
        let suggestions = designer.suggest(History { completed: &completed, pending: &[] }, request).unwrap();
        for (suggestion, id) in suggestions.into_iter().zip(first..) {
            let value = objective(&numbers(&suggestion.parameters));
            completed.push(measured(TrialId(id), suggestion.parameters, value));
        }
    }
    completed
}

fn best(history: &[CompletedTrial]) -> f64 {
    let value = |trial: &CompletedTrial| match &trial.outcome {
        TrialOutcome::Measured { values, .. } => values[0],
        TrialOutcome::Infeasible => f64::INFINITY,
    };
    history.iter().map(value).fold(f64::INFINITY, f64::min)
}

fn sphere(x: &[f64]) -> f64 {
    x.iter().map(|x| (x - 0.7) * (x - 0.7)).sum()
}

fn ellipsoid(x: &[f64]) -> f64 {
    let last = (x.len() - 1) as f64;
    x.iter().enumerate().map(|(j, x)| 1e6_f64.powf(j as f64 / last) * (x - 0.7) * (x - 0.7)).sum()
}

/// Reference values: computed in Python with double precision from equations 49 to 58 of the tutorial, independently of
/// this code.
#[test]
fn constants_match_the_tutorial() {
    for expected in TUTORIAL {
        let population = Constants::default_population(expected.n);
        assert_eq!(population, expected.population, "lambda at n = {}", expected.n);
        let constants = Constants::new(expected.n, population);
        let negative: f64 = constants.weights.iter().filter(|weight| **weight < 0.0).sum();
        let pairs = [
            (constants.selection_mass, expected.selection_mass),
            (constants.step_path_rate, expected.step_path_rate),
            (constants.step_damping, expected.step_damping),
            (constants.covariance_path_rate, expected.covariance_path_rate),
            (constants.rank_one_rate, expected.rank_one_rate),
            (constants.rank_mu_rate, expected.rank_mu_rate),
            (constants.weights[0], expected.first_weight),
            (negative, expected.negative_weights),
            (constants.expected_length, expected.expected_length),
        ];
        for (place, (actual, expected)) in pairs.into_iter().enumerate() {
            assert!((actual - expected).abs() < 1e-9, "number {place}: {actual} is not {expected}");
        }
        let positive: f64 = constants.weights.iter().filter(|weight| **weight > 0.0).sum();
        assert!((positive - 1.0).abs() < 1e-12);
    }
}

#[test]
fn update_is_invariant_under_rotation() {
    let n = 4;
    let constants = Constants::new(n, Constants::default_population(n));
    let mut rng = stream(5, TrialId(1), "rotation");
    let random = DMatrix::from_fn(n, n, |_, _| StandardNormal.sample(&mut rng));
    let rotation: DMatrix<f64> = random.qr().q();
    let mean: DVector<f64> = DVector::from_fn(n, |_, _| StandardNormal.sample(&mut rng));
    let mut plain = Distribution::new(mean.clone(), 0.3);
    let mut turned = Distribution::new(&rotation * mean, 0.3);
    for _ in 0..30 {
        let normals = |rng: &mut ChaCha8Rng| DVector::from_fn(n, |_, _| StandardNormal.sample(rng));
        let draws: Vec<DVector<f64>> = (0..constants.population()).map(|_| normals(&mut rng)).collect();
        let steps: Vec<_> = draws.iter().map(|z| plain.step_to(&plain.point(z))).collect();
        let turned_steps: Vec<_> = draws.iter().map(|z| turned.step_to(&turned.point(&(&rotation * z)))).collect();
        plain.update(&constants, &steps);
        turned.update(&constants, &turned_steps);
    }
    assert!((&rotation * &plain.mean - &turned.mean).norm() < 1e-9);
    assert!((plain.step_size / turned.step_size - 1.0).abs() < 1e-9);
    let expected = &rotation * plain.covariance() * rotation.transpose();
    assert!((expected - turned.covariance()).norm() < 1e-8 * plain.covariance().norm());
}

#[test]
fn smooth_functions_of_five_parameters_are_minimised() {
    for seed in 1..=3 {
        let history = run(&doubles(5), seed, 850, sphere);
        assert!(best(&history) < 1e-8, "sphere, seed {seed}: {:e}", best(&history));
        let history = run(&doubles(5), seed, 3_000, ellipsoid);
        assert!(best(&history) < 1e-8, "ellipsoid, seed {seed}: {:e}", best(&history));
    }
}

#[test]
fn parameters_with_few_values_keep_changing() {
    let integer = |max| ParameterKind::Integer { min: 0, max, scale: ScaleType::UnitLinear };
    let double = ParameterKind::Double { min: -5.0, max: 5.0, scale: ScaleType::UnitLinear };
    let problem =
        problem(&[("a", integer(1)), ("b", integer(3)), ("c", integer(15)), ("d", double.clone()), ("e", double)]);
    // The integers only matter once the doubles are close: the distribution is narrow by then.
    let objective = |x: &[f64]| {
        let continuous = x[3] * x[3] + x[4] * x[4];
        let discrete = (1.0 - x[0]) + (x[1] - 3.0).abs() + (x[2] - 14.0).abs();
        continuous + 1e-3 * discrete
    };
    for seed in 1..=3 {
        let history = run(&problem, seed, 1_000, objective);
        assert!(best(&history) < 1e-5, "seed {seed}: {:e}", best(&history));
    }
}

#[test]
fn order_batches_and_monotone_changes_of_values_have_no_effect() {
    let problem = doubles(3);
    let mut history = run(&problem, 4, 60, ellipsoid);
    let designer = CmaEs::new(&problem, 4).unwrap();
    let ask = |completed: &[CompletedTrial]| {
        designer.suggest(History { completed, pending: &[] }, SuggestRequest::one(TrialId(61))).unwrap()
    };
    let expected = ask(&history);
    history.reverse();
    assert_eq!(ask(&history), expected);
    history.sort_by_key(|trial| (trial.id.0 % 7, trial.id));
    assert_eq!(ask(&history), expected);
    // Only the order of the values matters.
    for trial in &mut history {
        if let TrialOutcome::Measured { values, .. } = &mut trial.outcome {
            values[0] = 1e3 * values[0].ln() - 7.0;
        }
    }
    assert_eq!(ask(&history), expected);
}

#[test]
fn state_changes_by_generation_and_pending_trials_do_not_block() {
    let problem = doubles(2);
    let history = run(&problem, 9, 12, sphere);
    let designer = CmaEs::new(&problem, 9).unwrap();
    let ask = |completed: &[CompletedTrial], pending: &[PendingTrial]| {
        designer.suggest(History { completed, pending }, SuggestRequest::one(TrialId(99))).unwrap()
    };
    // Six trials per generation: with 6 to 11 trials the second one is in progress, and single suggestions equal a
    // batch.
    let second = ask(&history[..6], &[]);
    let next = designer.suggest(History { completed: &history[..8], pending: &[] }, SuggestRequest::one(TrialId(9)));
    assert_eq!(next.unwrap()[0].parameters, history[8].parameters);
    assert_eq!(ask(&history[..11], &[]), second);
    assert_ne!(ask(&history[..5], &[]), second);
    assert_ne!(ask(&history, &[]), second);
    let pending: Vec<PendingTrial> =
        history[6..].iter().map(|trial| PendingTrial { id: trial.id, parameters: trial.parameters.clone() }).collect();
    assert_eq!(ask(&history[..6], &pending), second);
}

#[test]
fn good_user_supplied_trial_attracts_the_mean() {
    let problem = doubles(5);
    let encoding = Encoding::new(problem.search_space());
    let designer = CmaEs::new(&problem, 1).unwrap();
    let target = vec![0.95; 5];
    let mut completed = run(&problem, 1, 8, |_| 1.0);
    let distance = |completed: &[CompletedTrial]| {
        let request = SuggestRequest { first_trial_id: TrialId(9), count: 50.try_into().unwrap() };
        let suggestions = designer.suggest(History { completed, pending: &[] }, request).unwrap();
        let sum: f64 = suggestions
            .iter()
            .flat_map(|suggestion| encoding.encode(&suggestion.parameters).unwrap())
            .map(|u| (u - target[0]).abs())
            .sum();
        sum / 250.0
    };
    let before = distance(&completed);
    completed[7] = measured(TrialId(8), encoding.decode(&target), 0.0);
    assert!(distance(&completed) < before - 0.05, "{} {before}", distance(&completed));
}

#[test]
fn converged_run_restarts_elsewhere_with_twice_the_population() {
    let problem = doubles(2);
    let history = run(&problem, 2, 700, sphere);
    let designer = CmaEs::new(&problem, 2).unwrap();
    let search = SearchRange { encoding: &designer.encoding, ranges: &designer.ranges, seed: 2 };
    let completed = designer.completed(History { completed: &history, pending: &[] }).unwrap();
    let state = State::replay(&search, &completed, &Memory::default());
    assert!(state.run >= 1);
    assert_eq!(state.constants.population(), 6 << state.run);
    assert!(best(&history) < 1e-12);
}

/// Each history of a growing study, one with a late trial, and a shorter one.
#[test]
fn designer_with_memory_returns_what_a_new_one_does() {
    let problem = doubles(3);
    let history = run(&problem, 4, 60, sphere);
    let without = |late: usize| -> Vec<CompletedTrial> {
        history.iter().enumerate().filter(|(index, _)| *index != late).map(|(_, trial)| trial.clone()).collect()
    };
    let growing = (20..60).map(|count| history[..count].to_vec());
    let histories = growing.chain([without(50), history.clone(), without(2), history.clone(), history[..30].to_vec()]);
    let designer = CmaEs::new(&problem, 4).unwrap();
    for completed in histories {
        let request = SuggestRequest::one(TrialId(99));
        let ask =
            |designer: &CmaEs| designer.suggest(History { completed: &completed, pending: &[] }, request).unwrap();
        assert_eq!(ask(&designer), ask(&CmaEs::new(&problem, 4).unwrap()), "{} trials", completed.len());
    }
}

#[test]
fn only_generations_after_the_remembered_ones_are_replayed() {
    let problem = doubles(3);
    let history = run(&problem, 4, 60, sphere);
    let designer = CmaEs::new(&problem, 4).unwrap();
    let search = SearchRange { encoding: &designer.encoding, ranges: &designer.ranges, seed: 4 };
    let completed = designer.completed(History { completed: &history, pending: &[] }).unwrap();
    let memory = Memory::default();
    let replayed = |completed: &[Completed]| {
        let generations = std::cell::Cell::new(0);
        let next = |replay: &Replay| {
            let longer = replay.next(&search, completed);
            generations.set(generations.get() + usize::from(longer.is_some()));
            longer
        };
        let end = memory.continued(completed, || Replay::start(&search), next);
        (end.trials, generations.get())
    };
    // The population is 7 in three dimensions.
    assert_eq!(replayed(&completed[..50]), (49, 7));
    assert_eq!(replayed(&completed[..55]), (49, 0));
    assert_eq!(replayed(&completed), (56, 1));
    // A trial of the last generation but one is missing, then one of the first.
    let without = |late: usize| [&completed[..late], &completed[late + 1..]].concat();
    assert_eq!(replayed(&without(45)), (56, 2));
    assert_eq!(replayed(&without(3)), (56, 8));
}

#[test]
fn categorical_parameters_are_rejected_by_name() {
    let levels = ["relu", "tanh"].map(str::to_owned).to_vec();
    let problem = problem(&[("activation", ParameterKind::Categorical { values: levels })]);
    let error = CmaEs::new(&problem, 1).unwrap_err();
    let reason = "parameter \"activation\" is categorical".to_owned();
    assert_eq!(error, DesignerError::Unsupported { algorithm: NAME, reason });
}

struct Tutorial {
    n: usize,
    population: usize,
    selection_mass: f64,
    step_path_rate: f64,
    step_damping: f64,
    covariance_path_rate: f64,
    rank_one_rate: f64,
    rank_mu_rate: f64,
    first_weight: f64,
    negative_weights: f64,
    expected_length: f64,
}

const TUTORIAL: [Tutorial; 3] = [
    Tutorial {
        n: 2,
        population: 6,
        selection_mass: 2.0286114646100617,
        step_path_rate: 0.44620498737831715,
        step_damping: 1.4462049873783172,
        covariance_path_rate: 0.6245545390268264,
        rank_one_rate: 0.1548153998964136,
        rank_mu_rate: 0.08559277942666424,
        first_weight: 0.6370425712412168,
        negative_weights: -2.207323654840602,
        expected_length: 1.254272742818995,
    },
    Tutorial {
        n: 10,
        population: 10,
        selection_mass: 3.1672992814107026,
        step_path_rate: 0.2844285879463675,
        step_damping: 1.2844285879463675,
        covariance_path_rate: 0.29499038303562225,
        rank_one_rate: 0.015283824524751714,
        rank_mu_rate: 0.023551776650417484,
        first_weight: 0.45627264690340597,
        negative_weights: -1.6489457144406465,
        expected_length: 3.0847265651690123,
    },
    Tutorial {
        n: 40,
        population: 15,
        selection_mass: 4.540915209075957,
        step_path_rate: 0.1320305687020827,
        step_damping: 1.1320305687020826,
        covariance_path_rate: 0.09300921663424917,
        rank_one_rate: 0.0011694327252618397,
        rank_mu_rate: 0.0034052196437063457,
        first_weight: 0.34479619859202054,
        negative_weights: -1.3434235813314506,
        expected_length: 6.28521508039776,
    },
];
