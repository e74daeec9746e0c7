//! The effect of each option, and the suggestions of the defaults.

use super::tests::{
    bowl, coordinates, cube, distance, history, next, posterior, problem, shrunk_box, square, suggest, trial,
};
use super::*;
use crate::acquisition::{Criterion, DEFAULT_BETA};
use crate::output_warp::{standardized, warp};
use crate::problem::{
    CompletedTrial, Goal, MetricSpec, ObservationNoise, ParameterKind, ParameterSpec, ParameterValue, ParameterValues,
    ScaleType, SearchSpace, TrialOutcome,
};
use crate::sampling::sobol_point;
use crate::testing::designer_contract;

const BOUND: Criterion = Criterion::UpperConfidenceBound { beta: DEFAULT_BETA };

fn bandit(options: GpBanditOptions) -> GpBandit {
    GpBandit::with_options(problem(square(), Goal::Maximize), 7, options).unwrap()
}

fn usual() -> GpBanditOptions {
    GpBanditOptions::default()
}

/// The defaults with one option changed at a time.
fn variants() -> [GpBanditOptions; 6] {
    [
        GpBanditOptions { acquisition: BOUND, ..usual() },
        GpBanditOptions { acquisition: Criterion::Mean, ..usual() },
        GpBanditOptions { trust_region: false, ..usual() },
        GpBanditOptions { initial_design: InitialDesign::SpaceFilling, ..usual() },
        GpBanditOptions { linear_term: false, ..usual() },
        GpBanditOptions { warp: false, ..usual() },
    ]
}

fn model(options: &GpBanditOptions, trials: &[CompletedTrial]) -> Model {
    let bandit = bandit(*options);
    let history = History { completed: trials, pending: &[] };
    let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
    Model::of_one_objective(&bandit.encoding, &outcomes, options, &bandit.fits, None, |_| false, 1).unwrap()
}

/// A batch of three. The second trial may move to a corner because the box has not shrunk.
#[test]
fn default_suggestions_match_recorded_values() {
    let expected = [[0.48964491589494, 0.6392054830573546], [1.0, 1.0], [0.6865376555018704, 0.7342270769135077]];
    let found = suggest(&bandit(usual()), &history(1.0, bowl), &[], 3);
    for (point, expected) in found.iter().map(coordinates).zip(expected) {
        // Other processors may round sums in matrix products differently.
        assert!((point[0] - expected[0]).abs() < 1e-4 && (point[1] - expected[1]).abs() < 1e-4, "{found:?}");
    }
    let new = GpBandit::new(problem(square(), Goal::Maximize), 7).unwrap();
    assert_eq!(suggest(&new, &history(1.0, bowl), &[], 3), found);
}

/// The fit of the first twenty trials is corrected by later ones, and the box has changed its size.
#[test]
fn default_suggestions_late_in_a_study_match_recorded_values() {
    let trials: Vec<_> = (0..30_u32)
        .map(|i| {
            let (a, b) = ((0.1 + 0.37 * f64::from(i)).fract(), (0.3 + 0.61 * f64::from(i)).fract());
            let value = bowl(a, b) + 0.2 * (9.0 * a).sin() * (7.0 * b).cos();
            trial(u64::from(i) + 1, &[("a", a), ("b", b)], Some(value))
        })
        .collect();
    let batch = [
        [0.5149982555694823, 0.5116153688275078],
        [0.49056239399185736, 0.5192351717221583],
        [0.49375765514530684, 0.4759292475892242],
    ];
    for (count, expected) in [
        (25, &[[0.4607002219165492, 0.5022796019960024]][..]),
        (28, &batch[..]),
        (30, &[[0.5135637892388584, 0.5113901022529651]][..]),
    ] {
        let found = suggest(&bandit(usual()), &trials[..count], &[], expected.len());
        for (point, expected) in found.iter().map(coordinates).zip(expected) {
            // Other processors may round sums in matrix products differently.
            let is_close = (point[0] - expected[0]).abs() < 1e-4 && (point[1] - expected[1]).abs() < 1e-4;
            assert!(is_close, "after {count}: {found:?}");
        }
    }
}

#[test]
fn each_option_changes_a_suggestion() {
    let histories = [vec![], history(1.0, bowl), shrunk_box()];
    for options in variants() {
        let change = |trials: &Vec<_>| distance(&next(&bandit(options), trials), &next(&bandit(usual()), trials));
        let changes: Vec<f64> = histories.iter().map(change).collect();
        assert!(changes.iter().any(|change| *change > 1e-3), "{options:?}: {changes:?}");
    }
}

#[test]
fn each_criterion_proposes_its_maximum() {
    let trials = history(1.0, bowl);
    let criteria = [Criterion::ExpectedImprovement, BOUND, Criterion::Mean];
    let all = criteria.map(|acquisition| GpBanditOptions { acquisition, trust_region: false, ..usual() });
    let points = all.map(|options| coordinates(&next(&bandit(options), &trials)));
    let rows = nalgebra::DMatrix::from_fn(3, 2, |row, j| points[row][j]);
    for (own, options) in all.iter().enumerate() {
        let values = model(options, &trials).acquisition.values(&rows);
        for other in (0..3).filter(|&other| other != own) {
            assert!(values[own] > values[other], "{options:?}: {values:?} at {points:?}");
        }
    }
}

#[test]
fn upper_confidence_bound_replaces_improvement_under_much_noise() {
    // Repeated pairs of neighbours differ by 0.6 of a range of about 1.3.
    let noisy: Vec<_> = (0..24_u32)
        .map(|i| {
            let (a, b) = ((0.1 + 0.37 * f64::from(i / 2)).fract(), (0.3 + 0.61 * f64::from(i / 2)).fract());
            let noise = if i % 2 == 0 { 0.3 } else { -0.3 };
            trial(u64::from(i) + 1, &[("a", a + 1e-3 * f64::from(i % 2)), ("b", b)], Some(bowl(a, b) + noise))
        })
        .collect();
    assert!(!model(&usual(), &noisy).is_log_improvement);
    assert!(model(&usual(), &history(1.0, bowl)).is_log_improvement);
    let mean = GpBanditOptions { acquisition: Criterion::Mean, trust_region: false, ..usual() };
    let greedy = coordinates(&next(&bandit(mean), &noisy));
    let explicit = GpBanditOptions { acquisition: BOUND, trust_region: false, ..usual() };
    let bound = coordinates(&next(&bandit(explicit), &noisy));
    let default = coordinates(&next(&bandit(GpBanditOptions { trust_region: false, ..usual() }), &noisy));
    assert_eq!(default, bound);
    assert_ne!(default, greedy);
}

#[test]
fn larger_beta_explores_more() {
    let trials = history(1.0, bowl);
    let deviation = |beta| {
        let acquisition = Criterion::UpperConfidenceBound { beta };
        let options = GpBanditOptions { acquisition, trust_region: false, ..usual() };
        let point = coordinates(&next(&bandit(options), &trials));
        posterior(&bandit(usual()), &trials).predict(&nalgebra::DMatrix::from_row_slice(1, 2, &point)).deviations[0]
    };
    let deviations = [0.01, 0.3, 1.8].map(deviation);
    assert!(deviations[0] < deviations[1] && deviations[1] < deviations[2], "{deviations:?}");
}

#[test]
fn beta_must_be_a_positive_number() {
    for beta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = GpBanditOptions { acquisition: Criterion::UpperConfidenceBound { beta }, ..usual() };
        let error = GpBandit::with_options(problem(square(), Goal::Maximize), 7, options).unwrap_err();
        assert!(matches!(error, DesignerError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn without_trust_region_proposals_leave_the_box() {
    // The bound is maximal far away; the box around (0.31, 0.59) has a side of 0.025.
    let away = |trust_region| {
        let options = GpBanditOptions { acquisition: BOUND, trust_region, ..usual() };
        let point = coordinates(&next(&bandit(options), &shrunk_box()));
        (point[0] - 0.31).abs().max((point[1] - 0.59).abs())
    };
    assert!(away(true) < 0.06);
    assert!(away(false) > 0.1, "{}", away(false));
}

#[test]
fn space_filling_design_is_a_sobol_sequence() {
    let bandit = bandit(GpBanditOptions { initial_design: InitialDesign::SpaceFilling, ..usual() });
    let found: Vec<_> = suggest(&bandit, &[], &[], 6).iter().map(coordinates).collect();
    let expected: Vec<_> = (1..=6).map(|id| sobol_point(&bandit.encoding, 7, TrialId(id))).collect();
    assert_eq!(found, expected);
    for (dimensions, axes, axes_of_two_outputs, sobol) in
        [(1, 4, 4, 4), (4, 5, 5, 5), (9, 10, 10, 6), (15, 16, 16, 6), (16, 17, 6, 6), (50, 51, 6, 6), (51, 6, 6, 6)]
    {
        let cube = Encoding::new(&SearchSpace::new(cube(dimensions)).unwrap());
        assert_eq!(InitialDesign::AxisAligned.trials(&cube, 1), axes);
        assert_eq!(InitialDesign::AxisAligned.trials(&cube, 2), axes_of_two_outputs);
        assert_eq!(InitialDesign::SpaceFilling.trials(&cube, 1), sobol);
    }
}

#[test]
fn linear_term_can_be_switched_off() {
    let trials = history(1.0, |a, b| 3.0 * a + b);
    let linear_variance = |options| posterior(&bandit(options), &trials).hyperparameters().kernel.linear_variance;
    assert_eq!(linear_variance(GpBanditOptions { linear_term: false, ..usual() }), 0.0);
    assert!(linear_variance(usual()) > 0.1);
}

#[test]
fn values_are_warped_or_only_standardised() {
    let trials = history(1.0, |a, b| (8.0 * bowl(a, b)).exp());
    let bandit = bandit(usual());
    let history = History { completed: &trials, pending: &[] };
    let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
    let observations = &outcomes.objectives[0];
    let raw: Vec<f64> = trials.iter().map(|trial| trial.outcome.clone()).map(measured).collect();
    assert_eq!(observations.evidence(&bandit.encoding, true).data.values, warp(&raw, false));
    assert_eq!(observations.evidence(&bandit.encoding, false).data.values, standardized(&raw));
}

fn measured(outcome: crate::problem::TrialOutcome) -> f64 {
    match outcome {
        crate::problem::TrialOutcome::Measured { values, .. } => values[0],
        other => panic!("{other:?}"),
    }
}

fn assert_contract(options: GpBanditOptions) {
    designer_contract(|problem, seed| Ok(Box::new(GpBandit::with_options(problem.clone(), seed, options)?)));
}

#[test]
fn upper_confidence_bound_satisfies_the_contract() {
    assert_contract(variants()[0]);
}

#[test]
fn mean_satisfies_the_contract() {
    assert_contract(variants()[1]);
}

#[test]
fn search_of_the_whole_space_satisfies_the_contract() {
    assert_contract(variants()[2]);
}

#[test]
fn space_filling_design_satisfies_the_contract() {
    assert_contract(variants()[3]);
}

#[test]
fn model_without_linear_term_satisfies_the_contract() {
    assert_contract(variants()[4]);
}

#[test]
fn standardised_values_satisfy_the_contract() {
    assert_contract(variants()[5]);
}

#[test]
fn only_with_high_noise_points_are_tried_again() {
    let kind = ParameterKind::Integer { min: 1, max: 4, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("n", kind).unwrap()]).unwrap();
    let problem = ProblemStatement::new(space, vec![MetricSpec { name: "y".into(), goal: Goal::Maximize }]).unwrap();
    let trial = |id: u64, outcome| {
        let n = ((id - 1) % 4 + 1) as i64;
        let parameters = ParameterValues::from([("n".to_owned(), ParameterValue::Integer(n))]);
        CompletedTrial { id: TrialId(id), parameters, outcome }
    };
    let values = [0.1, 0.2, 0.9, 0.3];
    let measured = |id: u64| {
        let outcome = TrialOutcome::Measured { values: vec![values[(id - 1) as usize]], stopped_early: false };
        trial(id, outcome)
    };
    let completed: Vec<CompletedTrial> = (1..=4).map(measured).collect();
    let suggested = |noise, completed: &[CompletedTrial]| {
        let bandit = GpBandit::new(problem.clone().with_observation_noise(noise), 3).unwrap();
        bandit.suggest(History { completed, pending: &[] }, SuggestRequest::one(TrialId(5))).unwrap()
    };
    assert_eq!(suggested(ObservationNoise::Auto, &completed), []);
    assert_eq!(suggested(ObservationNoise::Low, &completed), []);
    let [again] = &suggested(ObservationNoise::High, &completed)[..] else { panic!("no point") };
    assert_eq!(again.parameters["n"], ParameterValue::Integer(3));
    // A failed point is not tried again.
    let mut failed = completed.clone();
    failed[2].outcome = TrialOutcome::Infeasible;
    let [again] = &suggested(ObservationNoise::High, &failed)[..] else { panic!("no point") };
    assert_ne!(again.parameters["n"], ParameterValue::Integer(3));
}
