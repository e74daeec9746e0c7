use super::super::*;
use super::{bowl, coordinates, cube, history, problem, square, suggest, trial};
use crate::problem::{
    CompletedTrial, Goal, MetricSpec, ObservationNoise, ParameterKind, ParameterSpec, ParameterValue, ParameterValues,
    ScaleType, SearchSpace, TrialOutcome,
};

fn bandit() -> GpBandit {
    GpBandit::new(problem(square(), Goal::Maximize), 7).unwrap()
}

fn model(trials: &[CompletedTrial]) -> Model {
    let bandit = bandit();
    let history = History { completed: trials, pending: &[] };
    let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
    Model::of_one_objective(&bandit.encoding, &outcomes, &bandit.fits, None, |_| false, 1).unwrap()
}

/// A batch of three. The second trial may move to a corner because the box has not shrunk.
#[test]
fn default_suggestions_match_recorded_values() {
    let expected = [[0.48964491589494, 0.6392054830573546], [1.0, 1.0], [0.6865376555018704, 0.7342270769135077]];
    let found = suggest(&bandit(), &history(1.0, bowl), &[], 3);
    for (point, expected) in found.iter().map(coordinates).zip(expected) {
        // Other processors may round sums in matrix products differently.
        assert!((point[0] - expected[0]).abs() < 1e-4 && (point[1] - expected[1]).abs() < 1e-4, "{found:?}");
    }
}

/// Later trials correct the fit of the first twenty, and the box has changed its size.
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
        let found = suggest(&bandit(), &trials[..count], &[], expected.len());
        for (point, expected) in found.iter().map(coordinates).zip(expected) {
            // Other processors may round sums in matrix products differently.
            let is_close = (point[0] - expected[0]).abs() < 1e-4 && (point[1] - expected[1]).abs() < 1e-4;
            assert!(is_close, "after {count}: {found:?}");
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
    assert!(!model(&noisy).is_log_improvement);
    assert!(model(&history(1.0, bowl)).is_log_improvement);
}

#[test]
fn initial_design_grows_with_the_space_up_to_its_limits() {
    for (dimensions, trials) in [(1, 4), (4, 5), (5, 6), (7, 8), (8, 8), (100, 8)] {
        let cube = Encoding::new(&SearchSpace::new(cube(dimensions)).unwrap());
        assert_eq!(initial_design::trials(&cube), trials);
    }
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
        let outcome = TrialOutcome::measured(vec![values[(id - 1) as usize]]);
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
