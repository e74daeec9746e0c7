mod conditional;
mod failure;
mod invariance;
mod memory;
mod multi_objective;
mod recorded;
mod work;
mod wrong_results;

use std::num::NonZeroUsize;

use super::fitting::{Fitting, Output};
use super::*;
use crate::gp::Posterior;
use crate::problem::{
    CompletedTrial, Fidelity, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues,
    PendingTrial, ScaleType, SearchSpace, TrialOutcome,
};

pub(super) fn double(name: &str, min: f64, max: f64) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Double { min, max, scale: ScaleType::UnitLinear }).unwrap()
}

pub(super) fn problem(parameters: Vec<ParameterSpec>, goal: Goal) -> ProblemStatement {
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![MetricSpec { name: "m".into(), goal }]).unwrap()
}

fn bandit(parameters: Vec<ParameterSpec>, goal: Goal) -> GpBandit {
    GpBandit::new(problem(parameters, goal), 7).unwrap()
}

pub(super) fn square() -> Vec<ParameterSpec> {
    vec![double("a", 0.0, 1.0), double("b", 0.0, 1.0)]
}

pub(super) fn cube(dimensions: usize) -> Vec<ParameterSpec> {
    (0..dimensions).map(|j| double(&format!("x{j:02}"), 0.0, 1.0)).collect()
}

/// A trial of `values` (name, value) with an outcome.
pub(super) fn trial(id: u64, values: &[(&str, f64)], value: Option<f64>) -> CompletedTrial {
    let parameters = values.iter().map(|(name, x)| ((*name).to_owned(), ParameterValue::Double(*x))).collect();
    let outcome = match value {
        Some(value) => TrialOutcome::measured(vec![value]),
        None => TrialOutcome::Infeasible,
    };
    CompletedTrial { id: TrialId(id), parameters, outcome }
}

/// Eight spread points of the square `[0, size]^2` with `f(a, b)` in units of the square.
pub(super) fn history(size: f64, f: impl Fn(f64, f64) -> f64) -> Vec<CompletedTrial> {
    (0..8)
        .map(|i| {
            let (a, b) = ((0.1 + 0.37 * f64::from(i)).fract(), (0.3 + 0.61 * f64::from(i)).fract());
            trial(i as u64 + 1, &[("a", a * size), ("b", b * size)], Some(f(a, b)))
        })
        .collect()
}

pub(super) fn bowl(a: f64, b: f64) -> f64 {
    -(a - 0.3).powi(2) - 2.0 * (b - 0.6).powi(2) + 0.3 * a * b
}

pub(super) fn next(bandit: &GpBandit, completed: &[CompletedTrial]) -> ParameterValues {
    suggest(bandit, completed, &[], 1).remove(0)
}

pub(super) fn suggest(
    bandit: &GpBandit,
    completed: &[CompletedTrial],
    pending: &[PendingTrial],
    count: usize,
) -> Vec<ParameterValues> {
    let history = History { completed, pending };
    let first_trial_id = TrialId((completed.len() + pending.len()) as u64 + 1);
    let request = SuggestRequest { first_trial_id, count: NonZeroUsize::new(count).unwrap() };
    bandit.suggest(history, request).unwrap().into_iter().map(|suggestion| suggestion.parameters).collect()
}

pub(super) fn coordinates(values: &ParameterValues) -> Vec<f64> {
    let number = |value: &ParameterValue| match value {
        ParameterValue::Double(x) | ParameterValue::Discrete(x) => *x,
        ParameterValue::Integer(k) => *k as f64,
        ParameterValue::Categorical(level) => panic!("{level} is text"),
    };
    values.values().map(number).collect()
}

pub(super) fn distance(a: &ParameterValues, b: &ParameterValues) -> f64 {
    coordinates(a).iter().zip(coordinates(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

pub(super) fn posterior(bandit: &GpBandit, completed: &[CompletedTrial]) -> Posterior {
    let history = History { completed, pending: &[] };
    let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
    let objective = &outcomes.objectives[0];
    let evidence = objective.evidence(&bandit.encoding);
    let fitting = Fitting::new(&bandit.encoding, objective, &bandit.fits, &evidence);
    fitting.posterior(Output::Values, None).unwrap()
}

#[test]
fn suggestions_do_not_depend_on_units_of_the_objective() {
    let bandit = bandit(square(), Goal::Maximize);
    let reference = next(&bandit, &history(1.0, bowl));
    for (scale, shift) in [(1e6, 0.0), (1e-7, 0.0), (3.0, -40.0)] {
        let other = next(&bandit, &history(1.0, |a, b| scale * bowl(a, b) + shift));
        assert!(distance(&reference, &other) < 1e-6, "{scale} {shift}: {reference:?} {other:?}");
    }
}

#[test]
fn minimising_equals_maximising_the_negative() {
    let up = next(&bandit(square(), Goal::Maximize), &history(1.0, bowl));
    let down = next(&bandit(square(), Goal::Minimize), &history(1.0, |a, b| -bowl(a, b)));
    assert_eq!(up, down);
}

#[test]
fn suggestions_do_not_depend_on_units_of_parameters() {
    let reference = next(&bandit(square(), Goal::Maximize), &history(1.0, bowl));
    // A power of two keeps the encoding identical in every bit.
    let wide = bandit(vec![double("a", 0.0, 1024.0), double("b", 0.0, 1024.0)], Goal::Maximize);
    let other = next(&wide, &history(1024.0, bowl));
    for (small, large) in coordinates(&reference).iter().zip(coordinates(&other)) {
        assert!((small * 1024.0 - large).abs() < 1e-9);
    }
}

#[test]
fn suggestions_do_not_depend_on_the_order_of_parameters_or_trials() {
    let mut trials = history(1.0, bowl);
    let reference = next(&bandit(square(), Goal::Maximize), &trials);
    let mut reversed = square();
    reversed.reverse();
    trials.reverse();
    trials.swap(1, 4);
    assert_eq!(next(&bandit(reversed, Goal::Maximize), &trials), reference);
}

#[test]
fn suggestions_are_a_function_of_seed_and_history() {
    let trials = history(1.0, bowl);
    let suggestions = || suggest(&bandit(square(), Goal::Maximize), &trials, &[], 3);
    let first = suggestions();
    assert_eq!(first, suggestions());
    for (index, one) in first.iter().enumerate() {
        assert!(first[..index].iter().all(|other| distance(one, other) > 1e-3), "{first:?}");
    }
}

#[test]
fn pending_trial_at_the_best_point_moves_the_next_suggestion() {
    let bandit = bandit(square(), Goal::Maximize);
    let trials = history(1.0, bowl);
    let best = next(&bandit, &trials);
    let pending = PendingTrial { id: TrialId(9), parameters: best.clone() };
    let moved = suggest(&bandit, &trials, &[pending], 1).remove(0);
    assert!(distance(&best, &moved) > 0.01, "{best:?} {moved:?}");
}

#[test]
fn constant_objective_is_searched_evenly() {
    let bandit = bandit(square(), Goal::Maximize);
    let mut trials = Vec::new();
    for id in 1..=20 {
        let point = coordinates(&next(&bandit, &trials));
        trials.push(trial(id, &[("a", point[0]), ("b", point[1])], Some(3.0)));
    }
    // Four aligned trials of a Sobol sequence are in four quadrants.
    for four in trials[4..].chunks(4) {
        let quadrant = |trial: &CompletedTrial| -> Vec<bool> {
            coordinates(&trial.parameters).into_iter().map(|coordinate| coordinate > 0.5).collect()
        };
        let quadrants: HashSet<Vec<bool>> = four.iter().map(quadrant).collect();
        assert_eq!(quadrants.len(), 4, "{four:?}");
    }
}

#[test]
fn plateau_away_from_the_bounds_is_left() {
    for seed in 1..=8 {
        let bandit = GpBandit::new(problem(cube(5), Goal::Maximize), seed).unwrap();
        let mut trials = Vec::new();
        let is_found = (1..=32).any(|id| {
            let parameters = next(&bandit, &trials);
            let place = coordinates(&parameters)[0];
            let outcome = TrialOutcome::measured(vec![3.0]);
            trials.push(CompletedTrial { id: TrialId(id), parameters, outcome });
            (0.23..0.37).contains(&place)
        });
        assert!(is_found, "seed {seed}: no trial in a seventh of the range");
    }
}

#[test]
fn failures_are_never_the_incumbent_and_repel_the_search() {
    let bandit = bandit(square(), Goal::Maximize);
    // The objective increases with `a`, but every trial beyond 0.6 fails.
    let trials: Vec<_> = (0..24_u32)
        .map(|i| {
            let (a, b) = ((0.1 + 0.37 * f64::from(i)).fract(), (0.3 + 0.61 * f64::from(i)).fract());
            trial(u64::from(i) + 1, &[("a", a), ("b", b)], (a < 0.6).then_some(a))
        })
        .collect();
    let point = coordinates(&next(&bandit, &trials));
    assert!(point[0] < 0.7, "{point:?}");
    let mut not_a_number = trials.clone();
    for trial in &mut not_a_number {
        if trial.outcome == TrialOutcome::Infeasible {
            trial.outcome = TrialOutcome::measured(vec![f64::NAN]);
        }
    }
    assert_eq!(coordinates(&next(&bandit, &not_a_number)), point);
}

#[test]
fn history_of_failures_is_searched_evenly() {
    let bandit = bandit(square(), Goal::Maximize);
    let mut trials: Vec<CompletedTrial> = Vec::new();
    for id in 1..=12 {
        let point = next(&bandit, &trials);
        assert!(trials.iter().all(|trial| distance(&trial.parameters, &point) > 0.05));
        let point = coordinates(&point);
        trials.push(trial(id, &[("a", point[0]), ("b", point[1])], None));
    }
}

#[test]
fn axis_design_moves_one_parameter_at_a_time() {
    let levels =
        |values: &[&str]| ParameterKind::Categorical { values: values.iter().map(|v| (*v).to_owned()).collect() };
    let space = vec![
        double("a", 0.0, 1.0),
        ParameterSpec::new("b", ParameterKind::Integer { min: 0, max: 1, scale: ScaleType::UnitLinear }).unwrap(),
        ParameterSpec::new("c", levels(&["x", "y", "z"])).unwrap(),
    ];
    let design = initial_design::AxisDesign::new(&Encoding::new(&SearchSpace::new(space).unwrap()), None, 7).points();
    assert_eq!(design.len(), 3);
    for (j, point) in design[1..].iter().enumerate() {
        let different: Vec<usize> = (0..2).filter(|&k| point[k] != design[0][k]).collect();
        assert_eq!(different, [j]);
    }
    assert_eq!(design.iter().map(|point| point[2] as usize).collect::<HashSet<_>>(), HashSet::from([0, 1, 2]));
}

/// Half of the parameters move by 1/6, half of those up and half down; which ones depends on the seed.
#[test]
fn design_of_many_parameters_moves_half_of_them_together() {
    let encoding = Encoding::new(&SearchSpace::new(cube(16)).unwrap());
    let design = |seed: u64| initial_design::AxisDesign::new(&encoding, None, seed).points();
    let points = design(7);
    assert_eq!((points.len(), &points[0]), (8, &vec![0.5; 16]));
    for point in &points[1..] {
        let at = |u: f64| point.iter().filter(|x| (**x - u).abs() < 1e-12).count();
        assert_eq!([at(0.5), at(0.5 + 1.0 / 6.0), at(0.5 - 1.0 / 6.0)], [8, 4, 4], "{point:?}");
    }
    assert!((0..16).all(|j| points.iter().any(|point| point[j] != 0.5)), "{points:?}");
    assert_ne!(points[1..], design(8)[1..]);
}

/// Neither level is preferred: the first two points are complementary, whatever the order of the levels.
#[test]
fn levels_of_many_switches_are_balanced() {
    let names: Vec<String> = (0..20).map(|index| format!("s{index:02}")).collect();
    let run = |levels: [&str; 2]| -> Vec<ParameterValues> {
        let kind = || ParameterKind::Categorical { values: levels.map(str::to_owned).to_vec() };
        let bandit =
            bandit(names.iter().map(|name| ParameterSpec::new(name, kind()).unwrap()).collect(), Goal::Maximize);
        suggest(&bandit, &[], &[], 2)
    };
    let points = run(["off", "on"]);
    assert_eq!(points, run(["on", "off"]));
    assert!(names.iter().all(|name| points[0][name] != points[1][name]), "{points:?}");
    let on = names.iter().filter(|name| points[0][*name] == ParameterValue::Categorical("on".into())).count();
    assert!((5..=15).contains(&on), "{on}");
}

#[test]
fn finite_space_is_exhausted_without_repeats() {
    let integer = |name: &str, max| {
        ParameterSpec::new(name, ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear }).unwrap()
    };
    let bandit = bandit(vec![integer("a", 3), integer("b", 4)], Goal::Minimize);
    let mut completed: Vec<CompletedTrial> = Vec::new();
    for id in 1..=12 {
        let parameters = next(&bandit, &completed);
        assert!(completed.iter().all(|trial| trial.parameters != parameters));
        let values = vec![coordinates(&parameters).iter().sum()];
        let outcome = TrialOutcome::measured(values);
        completed.push(CompletedTrial { id: TrialId(id), parameters, outcome });
    }
    assert!(suggest(&bandit, &completed, &[], 1).is_empty());
    assert_eq!(suggest(&bandit, &completed[..10], &[], 5).len(), 2);
}

#[test]
fn trial_stopped_early_is_not_the_incumbent() {
    let encoding = Encoding::new(&SearchSpace::new(square()).unwrap());
    let mut trials = history(1.0, bowl);
    let early = TrialOutcome::Measured { values: vec![1e3], fidelity: Fidelity::Partial };
    trials[2].outcome = early;
    let outputs = Outputs::new(&problem(square(), Goal::Maximize));
    let outcomes = Outcomes::new(&encoding, &outputs, History { completed: &trials, pending: &[] }).unwrap();
    let evidence = outcomes.objectives[0].evidence(&encoding);
    assert!(!evidence.eligible().contains(&2));
    assert_eq!(evidence.data.noise_weights[2], 4.0);
}

#[test]
fn predicted_value_has_the_deviation_of_its_prediction_as_noise() {
    let encoding = Encoding::new(&SearchSpace::new(square()).unwrap());
    let outputs = Outputs::new(&problem(square(), Goal::Minimize));
    let noise = |deviation: f64, values: [f64; 2]| {
        let trials = [
            trial(1, &[("a", 0.2), ("b", 0.2)], Some(values[0])),
            CompletedTrial {
                outcome: TrialOutcome::Measured {
                    values: vec![values[1]],
                    fidelity: Fidelity::Predicted { deviation },
                },
                ..trial(2, &[("a", 0.7), ("b", 0.4)], None)
            },
        ];
        let outcomes = Outcomes::new(&encoding, &outputs, History { completed: &trials, pending: &[] }).unwrap();
        outcomes.objectives[0].evidence(&encoding).data.added_noise
    };
    // Two values are standardised to -1 and 1, and the deviation counts twice.
    let added = noise(0.25, [2.0, 6.0]);
    assert!(added[0] == 0.0 && (added[1] - 0.0625).abs() < 1e-12, "{added:?}");
    assert_eq!(noise(0.0, [2.0, 6.0]), [0.0, 0.0]);
    // In other units.
    assert!((noise(250.0, [-2e3, 2e3])[1] - added[1]).abs() < 1e-12);
}

/// Many trials without improvement after the first, at (0.31, 0.59), which shrink the box.
pub(super) fn shrunk_box() -> Vec<CompletedTrial> {
    let mut trials = vec![trial(1, &[("a", 0.31), ("b", 0.59)], Some(1.0))];
    trials.extend((1..14_u32).map(|i| {
        let (a, b) = ((0.1 + 0.37 * f64::from(i)).fract(), (0.3 + 0.61 * f64::from(i)).fract());
        trial(u64::from(i) + 1, &[("a", a), ("b", b)], Some(bowl(a, b)))
    }));
    trials
}

#[test]
fn proposals_lie_in_the_trust_region() {
    let bandit = bandit(square(), Goal::Maximize);
    let trials = shrunk_box();
    let point = coordinates(&next(&bandit, &trials));
    // Ten local failures: five halvings, side 0.025 (length scale ratio at most e^1.5, half a side to each end).
    assert!((point[0] - 0.31).abs() < 0.06 && (point[1] - 0.59).abs() < 0.06, "{point:?}");
}

/// 500 observations use every block of the factorisation; 600 are fitted on a subset.
#[test]
fn suggestions_for_long_histories_are_in_the_space() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let bandit = bandit(names.iter().map(|name| double(name, 0.0, 1.0)).collect(), Goal::Maximize);
    for n in [10_u32, 50, 100, 200, 600] {
        let completed: Vec<_> = (0..n)
            .map(|i| {
                let u = |j: usize| (0.1 + [0.7549, 0.5698, 0.4302, 0.3247, 0.2451, 0.185][j] * f64::from(i)).fract();
                let values: Vec<_> = names.iter().enumerate().map(|(j, name)| (*name, u(j))).collect();
                let value = (0..6).map(|j| -(u(j) - 0.4).powi(2) + 0.1 * (9.0 * u(j)).sin()).sum();
                trial(u64::from(i) + 1, &values, Some(value))
            })
            .collect();
        let point = next(&bandit, &completed);
        assert!(coordinates(&point).iter().all(|u| (0.0..=1.0).contains(u)));
    }
}
