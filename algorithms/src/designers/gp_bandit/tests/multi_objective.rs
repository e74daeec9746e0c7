use super::super::*;
use super::{coordinates, distance, square, suggest};
use crate::problem::{
    CompletedTrial, ConstraintSpec, Goal, MetricSpec, ParameterSpec, ParameterValue, ParameterValues, PendingTrial,
    SearchSpace, TrialOutcome,
};

fn problem(
    parameters: Vec<ParameterSpec>,
    metrics: &[(&str, Goal)],
    constraints: &[ConstraintSpec],
) -> ProblemStatement {
    let metric = |(name, goal): &(&str, Goal)| MetricSpec { name: (*name).to_owned(), goal: *goal };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), metrics.iter().map(metric).collect())
        .unwrap()
        .with_constraints(constraints.to_vec())
        .unwrap()
}

fn at_most(name: &str, threshold: f64) -> ConstraintSpec {
    ConstraintSpec::new(name, Goal::Minimize, threshold)
}

fn trial(id: u64, a: f64, b: f64, values: Vec<f64>) -> CompletedTrial {
    let parameters = [("a", a), ("b", b)].map(|(name, x)| (name.to_owned(), ParameterValue::Double(x)));
    let outcome = TrialOutcome::measured(values);
    CompletedTrial { id: TrialId(id), parameters: ParameterValues::from(parameters), outcome }
}

/// `count` spread points with the values of `f`.
fn history(count: u32, f: impl Fn(f64, f64) -> Vec<f64>) -> Vec<CompletedTrial> {
    let one = |i: u32| {
        let (a, b) = ((0.1 + 0.37 * f64::from(i)).fract(), (0.3 + 0.61 * f64::from(i)).fract());
        trial(u64::from(i) + 1, a, b, f(a, b))
    };
    (0..count).map(one).collect()
}

/// Squared distances from two points, optimal on the diagonal between (0.2, 0.2) and (0.8, 0.8), and two more metrics, all
/// to be minimised.
fn trade_off(a: f64, b: f64) -> Vec<f64> {
    let from = |c: f64| (a - c).powi(2) + (b - c).powi(2);
    vec![from(0.2), from(0.8), (a - 0.2).powi(2) + (b - 0.8).powi(2), (a - b).abs()]
}

const NAMES: [&str; 4] = ["near", "far", "side", "diagonal"];

fn minimized(count: usize) -> ProblemStatement {
    let metrics: Vec<(&str, Goal)> = NAMES[..count].iter().map(|name| (*name, Goal::Minimize)).collect();
    problem(square(), &metrics, &[])
}

fn first(count: usize) -> impl Fn(f64, f64) -> Vec<f64> {
    move |a, b| trade_off(a, b)[..count].to_vec()
}

fn run(problem: &ProblemStatement, trials: u64, f: impl Fn(f64, f64) -> Vec<f64>) -> Vec<CompletedTrial> {
    let bandit = GpBandit::new(problem.clone(), 3).unwrap();
    let mut completed = Vec::new();
    for id in 1..=trials {
        let point = coordinates(&suggest(&bandit, &completed, &[], 1)[0]);
        completed.push(trial(id, point[0], point[1], f(point[0], point[1])));
    }
    completed
}

#[test]
fn search_covers_the_whole_front_of_two_objectives() {
    let trials = run(&minimized(2), 24, first(2));
    let points: Vec<Vec<f64>> = trials.iter().map(|trial| coordinates(&trial.parameters)).collect();
    for on_front in [0.25, 0.35, 0.5, 0.65, 0.75] {
        let nearest = points.iter().map(|point| (point[0] - on_front).abs().max((point[1] - on_front).abs()));
        let nearest = nearest.fold(f64::INFINITY, f64::min);
        assert!(nearest < 0.1, "{on_front}: {nearest}, {points:?}");
    }
}

#[test]
fn steps_of_the_design_are_longer_with_three_metrics() {
    for (metrics, step) in [(2, 1.0 / 6.0), (3, 0.42), (4, 1.0 / 6.0)] {
        let completed = run(&minimized(metrics), 3, first(metrics));
        let points: Vec<Vec<f64>> = completed.iter().map(|trial| coordinates(&trial.parameters)).collect();
        for (point, expected) in points.iter().zip([[0.5, 0.5], [0.5 + step, 0.5], [0.5, 0.5 + step]]) {
            assert!(point.iter().zip(expected).all(|(u, e)| (u - e).abs() < 1e-9), "{metrics}: {points:?}");
        }
    }
}

#[test]
fn suggestions_do_not_depend_on_order_units_or_signs_of_metrics() {
    for count in [2, 3, 4] {
        let reference = suggest(&GpBandit::new(minimized(count), 7).unwrap(), &history(12, first(count)), &[], 2);
        let turned: Vec<(&str, Goal)> = NAMES[..count].iter().rev().map(|name| (*name, Goal::Minimize)).collect();
        let turned = GpBandit::new(problem(square(), &turned, &[]), 7).unwrap();
        let reversed = |a: f64, b: f64| first(count)(a, b).into_iter().rev().collect();
        assert_eq!(suggest(&turned, &history(12, reversed), &[], 2), reference, "{count}: order");

        let mut metrics: Vec<(&str, Goal)> = NAMES[..count].iter().map(|name| (*name, Goal::Minimize)).collect();
        metrics[0].1 = Goal::Maximize;
        let upwards = GpBandit::new(problem(square(), &metrics, &[]), 7).unwrap();
        let negated = |a: f64, b: f64| {
            let mut values = first(count)(a, b);
            values[0] = -values[0];
            values
        };
        assert_eq!(suggest(&upwards, &history(12, negated), &[], 2), reference, "{count}: sign");

        let scaled = |a: f64, b: f64| {
            let units = [(1e6, 0.0), (1e-5, 0.0), (3.0, -7.0), (2.0, 1.0)];
            first(count)(a, b).iter().zip(units).map(|(value, (scale, shift))| scale * value + shift).collect()
        };
        let other = suggest(&GpBandit::new(minimized(count), 7).unwrap(), &history(12, scaled), &[], 1);
        assert!(distance(&other[0], &reference[0]) < 1e-4, "{count}: units, {other:?} {reference:?}");
    }
}

#[test]
fn batches_with_several_objectives_are_spread() {
    for count in [2, 3, 4] {
        let bandit = GpBandit::new(minimized(count), 5).unwrap();
        let trials = history(14, first(count));
        let batch = suggest(&bandit, &trials, &[], 3);
        for (index, one) in batch.iter().enumerate() {
            assert!(batch[..index].iter().all(|other| distance(one, other) > 1e-3), "{count}: {batch:?}");
        }
        let pending = PendingTrial { id: TrialId(15), parameters: batch[0].clone() };
        let history = History { completed: &trials, pending: &[pending] };
        let after = bandit.suggest(history, SuggestRequest::one(TrialId(16))).unwrap();
        // The trials of a batch share their candidates, so only the refined points agree.
        assert!(distance(&after[0].parameters, &batch[1]) < 1e-3, "{count}: {after:?} {batch:?}");
    }
}

/// The best value violates the constraint; the best feasible one is at a = 0.6.
#[test]
fn search_finds_an_optimum_on_a_constraint_boundary() {
    let constrained = problem(square(), &[("value", Goal::Maximize)], &[at_most("size", 5.0)]);
    let f = |a: f64, b: f64| vec![a - (b - 0.3).powi(2), 20.0 * a - 7.0];
    let trials = run(&constrained, 25, f);
    let value = |trial: &CompletedTrial| match &trial.outcome {
        TrialOutcome::Measured { values, .. } if values[1] <= 5.0 => values[0],
        _ => f64::NEG_INFINITY,
    };
    let best = trials.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    assert!(best > 0.6 - 5e-3, "{best}");
}

#[test]
fn search_finds_the_feasible_region_without_a_feasible_trial() {
    // No initial trial is inside the feasible disc of radius 0.15, and the objective decreases away from it.
    let constrained = problem(square(), &[("value", Goal::Minimize)], &[at_most("distance", 0.15)]);
    let f = |a: f64, b: f64| vec![a + b, ((a - 0.9).powi(2) + (b - 0.85).powi(2)).sqrt()];
    let trials = run(&constrained, 16, f);
    let distances: Vec<f64> = trials
        .iter()
        .map(|trial| coordinates(&trial.parameters))
        .map(|point| ((point[0] - 0.9).powi(2) + (point[1] - 0.85).powi(2)).sqrt())
        .collect();
    assert!(distances[..5].iter().all(|distance| *distance > 0.15));
    let nearest = distances[5..].iter().copied().fold(f64::INFINITY, f64::min);
    assert!(nearest < 0.1501, "{distances:?}");
}

#[test]
fn suggestions_do_not_depend_on_units_or_order_of_constraints() {
    let f = |a: f64, b: f64| vec![a + 0.5 * b, a * a + b - 0.9, 0.2 - a * b];
    let bandit = |constraints: &[ConstraintSpec]| {
        GpBandit::new(problem(square(), &[("value", Goal::Maximize)], constraints), 7).unwrap()
    };
    let reference = suggest(&bandit(&[at_most("c", 0.0), at_most("d", 0.1)]), &history(14, f), &[], 1);
    let turned = |a: f64, b: f64| vec![f(a, b)[0], f(a, b)[2], f(a, b)[1]];
    let other = suggest(&bandit(&[at_most("d", 0.1), at_most("c", 0.0)]), &history(14, turned), &[], 1);
    assert_eq!(other, reference);
    let scaled = |a: f64, b: f64| vec![f(a, b)[0], 1e4 * f(a, b)[1], -f(a, b)[2]];
    let at_least = ConstraintSpec::new("d", Goal::Maximize, -0.1);
    let other = suggest(&bandit(&[at_most("c", 0.0), at_least]), &history(14, scaled), &[], 1);
    assert!(distance(&other[0], &reference[0]) < 1e-4, "{other:?} {reference:?}");
}

#[test]
fn history_with_a_wrong_number_of_values_is_rejected() {
    let bandit = GpBandit::new(problem(square(), &[("value", Goal::Maximize)], &[at_most("c", 0.0)]), 7).unwrap();
    let completed = [trial(1, 0.5, 0.5, vec![1.0])];
    let error = bandit.suggest(History { completed: &completed, pending: &[] }, SuggestRequest::one(TrialId(2)));
    let reason = "it has 1 values for 1 metrics and 1 constraints".to_owned();
    assert_eq!(error, Err(DesignerError::ForeignTrial { trial: TrialId(1), reason }));
}

#[test]
fn search_with_several_objectives_respects_a_constraint() {
    // The constraint excludes the half of the front beyond 0.5.
    let metrics = [("near", Goal::Minimize), ("far", Goal::Minimize)];
    let constrained = problem(square(), &metrics, &[at_most("a", 0.5)]);
    let trials = run(&constrained, 22, |a, b| vec![trade_off(a, b)[0], trade_off(a, b)[1], a]);
    let late: Vec<Vec<f64>> = trials[8..].iter().map(|trial| coordinates(&trial.parameters)).collect();
    let allowed = late.iter().filter(|point| point[0] <= 0.5).count();
    assert!(2 * allowed > late.len(), "{late:?}");
    let edge = trials.iter().map(|trial| coordinates(&trial.parameters));
    let nearest = edge.map(|point| (point[0] - 0.5).abs().max((point[1] - 0.6).abs())).fold(f64::INFINITY, f64::min);
    assert!(nearest < 0.15, "{late:?}");
}

#[test]
fn equal_objectives_are_searched_as_one() {
    // The front is a single point.
    let bandit = GpBandit::new(problem(square(), &[("m", Goal::Maximize), ("n", Goal::Maximize)], &[]), 7).unwrap();
    let trials = history(10, |a, _| vec![a, a]);
    assert!(coordinates(&suggest(&bandit, &trials, &[], 1)[0])[0] > 0.8);
}

#[test]
fn usual_slacks_keep_their_proportions_and_huge_ones_are_compressed() {
    let (targets, zero) = super::super::evidence::slack_targets(&[-2.0, -1.0, 0.0, 1.0, 2.0, 1e9]);
    assert_eq!(targets[2], zero);
    let ratio = (targets[4] - zero) / (targets[3] - zero);
    assert!((ratio - (1.1_f64).ln() / (1.05_f64).ln()).abs() < 1e-9, "{ratio}");
    assert!((targets[0] - zero + targets[4] - zero).abs() < 1e-9, "{targets:?}");
    assert!((targets[5] - zero) / (targets[4] - zero) < 200.0, "{targets:?}");
    let (huge, zero) = super::super::evidence::slack_targets(&[f64::MAX, -f64::MAX]);
    assert!(huge.iter().all(|target| target.is_finite()) && huge[0] > zero && huge[1] < zero, "{huge:?}");
}

#[test]
fn trust_region_does_not_shrink_before_the_first_feasible_trial() {
    let problem = problem(square(), &[("y", Goal::Minimize)], &[at_most("c", 0.0)]);
    let bandit = GpBandit::new(problem, 3).unwrap();
    let trials = history(14, |a, b| vec![a + b, if a + b > 0.0 { 1.0 } else { -1.0 }]);
    let length = |last: [f64; 2]| {
        let mut trials = trials.clone();
        // Two feasible trials, the second better, then an infeasible one.
        trials.push(trial(15, 0.5, 0.5, vec![0.5, last[0]]));
        trials.push(trial(17, 0.4, 0.4, vec![0.4, last[0]]));
        trials.push(trial(19, 0.3, 0.3, vec![0.3, last[1]]));
        let history = History { completed: &trials, pending: &[] };
        let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
        let model = Model::of_one_objective(&bandit.encoding, &outcomes, &bandit.fits, None, |_| false, 1).unwrap();
        model.trust_region.map(|region| (region.length, region.restarts))
    };
    assert_eq!(length([1.0, 1.0]), None);
    assert_eq!(length([-1.0, 1.0]), Some((0.8, 0)));
}

#[test]
fn wanted_share_of_safe_trials_makes_the_search_cautious() {
    // The best values are beyond the limit, and the limit winds.
    let unsafe_trials = |fraction: f64| {
        let limit = ConstraintSpec { min_safe_fraction: fraction, ..at_most("c", 0.0) };
        let problem = problem(square(), &[("y", Goal::Maximize)], &[limit]);
        let trials = run(&problem, 30, |a, b| vec![a + b, a + b - 1.1 - 0.3 * (9.0 * a).sin()]);
        let violates = |trial: &&CompletedTrial| match &trial.outcome {
            TrialOutcome::Measured { values, .. } => values[1] > 0.0,
            TrialOutcome::Infeasible => unreachable!("every trial is measured"),
        };
        trials.iter().filter(violates).count()
    };
    let (usual, cautious) = (unsafe_trials(0.0), unsafe_trials(1.0));
    assert!(2 * cautious < usual, "{usual} and {cautious} unsafe trials");
}

#[test]
fn interrupted_request_ends_before_all_its_suggestions() {
    let bandit = GpBandit::new(minimized(4), 3).unwrap();
    let completed = history(60, first(4));
    let request = SuggestRequest { first_trial_id: TrialId(61), count: 1_000_000.try_into().unwrap() };
    let interruption = Interruption::default();
    let answer = std::thread::scope(|scope| {
        let history = History { completed: &completed, pending: &[] };
        let computing = scope.spawn({
            let (bandit, interruption) = (&bandit, &interruption);
            move || bandit.suggest_until(history, request, interruption)
        });
        interruption.interrupt();
        computing.join().unwrap()
    });
    assert_eq!(answer, Err(DesignerError::Interrupted));
}
