//! Invariance of suggestions: threads, processes, names of levels, equivalent scales, one extreme value.

use std::num::NonZeroUsize;

use super::super::*;
use super::posterior;
use crate::problem::{
    CompletedTrial, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, PendingTrial,
    ScaleType, SearchSpace, TrialOutcome,
};
use crate::sampling::RandomPoints;
use crate::testing::every_kind_and_scale;

fn bandit(parameters: Vec<(&str, ParameterKind)>, goal: Goal) -> GpBandit {
    let specs = parameters.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metrics = vec![MetricSpec { name: "m".into(), goal }];
    GpBandit::new(ProblemStatement::new(SearchSpace::new(specs).unwrap(), metrics).unwrap(), 7).unwrap()
}

fn double(min: f64, max: f64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Double { min, max, scale }
}

fn measured(id: u64, parameters: ParameterValues, value: f64) -> CompletedTrial {
    let outcome = TrialOutcome::measured(vec![value]);
    CompletedTrial { id: TrialId(id), parameters, outcome }
}

fn suggest(bandit: &GpBandit, history: History<'_>, count: usize) -> Vec<ParameterValues> {
    let first_trial_id = TrialId((history.completed.len() + history.pending.len()) as u64 + 1);
    let request = SuggestRequest { first_trial_id, count: NonZeroUsize::new(count).unwrap() };
    bandit.suggest(history, request).unwrap().into_iter().map(|suggestion| suggestion.parameters).collect()
}

/// Three suggestions for a space with every kind of parameter, after forty results, with two pending trials.
fn mixed_suggestions() -> Vec<ParameterValues> {
    let (_, problem) = every_kind_and_scale().into_iter().find(|(name, _)| name == "all kinds together").unwrap();
    let bandit = GpBandit::new(problem, 7).unwrap();
    let mut random = RandomPoints::new(&bandit.encoding, 1, TrialId(1), "mixed");
    let mut point = || bandit.encoding.decode(&random.next().unwrap());
    let completed: Vec<_> = (1..=40).map(|id| measured(id, point(), (id as f64 * 1.7).sin())).collect();
    let pending: Vec<_> = (41..=42).map(|id| PendingTrial { id: TrialId(id), parameters: point() }).collect();
    suggest(&bandit, History { completed: &completed, pending: &pending }, 3)
}

/// Prefix of the line read by the test in the other process.
const PRINTED: &str = "suggestions: ";

#[test]
fn suggestions_are_the_same_on_one_thread_and_on_four() {
    let alone = mixed_suggestions();
    let together: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(mixed_suggestions)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(together.iter().all(|suggestions| *suggestions == alone));
    println!("{PRINTED}{alone:?}");
}

#[test]
#[expect(clippy::disallowed_types, reason = "the test runs another process")]
fn suggestions_are_the_same_in_another_process() {
    let test = format!("{}::suggestions_are_the_same_on_one_thread_and_on_four", module_path!());
    let (_, name) = test.split_once("::").unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    let (_, line) = output.split_once(PRINTED).unwrap_or_else(|| panic!("no suggestions in {output}"));
    assert_eq!(line.lines().next().unwrap(), format!("{:?}", mixed_suggestions()));
}

/// A space of 90 points whose three levels have `names`.
fn finite(names: [&str; 3]) -> GpBandit {
    let integer = |max| ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear };
    let levels = ParameterKind::Categorical { values: names.map(str::to_owned).to_vec() };
    bandit(vec![("width", integer(6)), ("depth", integer(5)), ("level", levels)], Goal::Maximize)
}

#[test]
fn suggestions_do_not_depend_on_level_names() {
    // The levels have different orders, both in the definition and by name.
    let names = [["a", "b", "c"], ["c", "a", "b"], ["x", "q", "r"]];
    let bandits = names.map(finite);
    let values = |width: i64, depth: i64, level: &str| {
        ParameterValues::from([
            ("width".to_owned(), ParameterValue::Integer(width)),
            ("depth".to_owned(), ParameterValue::Integer(depth)),
            ("level".to_owned(), ParameterValue::Categorical(level.to_owned())),
        ])
    };
    let mut histories: [Vec<CompletedTrial>; 3] = Default::default();
    for id in 1..=12_u64 {
        let (width, depth, level) = (1 + id as i64 % 6, 1 + 3 * id as i64 % 5, (id * id / 3) as usize % 3);
        let value = -(width as f64 - 2.6).powi(2) - 0.7 * (depth as f64 - 3.2).powi(2) - [0.0, 2.1, 0.9][level];
        for (history, names) in histories.iter_mut().zip(names) {
            history.push(measured(id, values(width, depth, names[level]), value));
        }
    }
    let suggestions: Vec<_> = (0..3)
        .map(|i| {
            let mut found = suggest(&bandits[i], History { completed: &histories[i], pending: &[] }, 1).remove(0);
            let level = match &found["level"] {
                ParameterValue::Categorical(level) => names[i].iter().position(|name| name == level).unwrap(),
                other => panic!("{other:?}"),
            };
            found.insert("level".to_owned(), ParameterValue::Integer(level as i64));
            found
        })
        .collect();
    assert_eq!(suggestions[0], suggestions[1]);
    assert_eq!(suggestions[0], suggestions[2]);
}

/// Twelve results of a function of two doubles `x` and `y`, both in `[-3, 0]`, where `enter` maps `x` to its parameter.
fn results(enter: impl Fn(f64) -> f64) -> Vec<CompletedTrial> {
    let spread = |i: u64, step: f64| -3.0 * (0.2 + step * i as f64).fract();
    let one = |i: u64| {
        let (x, y) = (spread(i, 0.37), spread(i, 0.61));
        let parameters = ParameterValues::from([
            ("x".to_owned(), ParameterValue::Double(enter(x))),
            ("y".to_owned(), ParameterValue::Double(y)),
        ]);
        measured(i, parameters, -(x + 1.1).powi(2) - 0.5 * (y + 2.0).powi(2))
    };
    (1..=12).map(one).collect()
}

#[test]
fn log_scale_equals_linear_scale_of_the_logarithm() {
    let y = || ("y", double(-3.0, 0.0, ScaleType::UnitLinear));
    let linear = bandit(vec![("x", double(-3.0, 0.0, ScaleType::UnitLinear)), y()], Goal::Maximize);
    let log = bandit(vec![("x", double(1e-3, 1.0, ScaleType::UnitLog)), y()], Goal::Maximize);
    let next = |bandit: &GpBandit, trials: &[CompletedTrial]| {
        let found = suggest(bandit, History { completed: trials, pending: &[] }, 1).remove(0);
        ["x", "y"].map(|name| match found[name] {
            ParameterValue::Double(value) => value,
            ref other => panic!("{other:?}"),
        })
    };
    let [x, y] = next(&linear, &results(|x| x));
    let [power, other_y] = next(&log, &results(|x| 10.0_f64.powf(x)));
    assert!((x - power.log10()).abs() < 1e-6 && (y - other_y).abs() < 1e-6, "{x} {power} {y} {other_y}");
}

#[test]
fn extreme_value_does_not_change_the_model_at_good_points() {
    let unit = || double(-3.0, 0.0, ScaleType::UnitLinear);
    let bandit = bandit(vec![("x", unit()), ("y", unit())], Goal::Maximize);
    let usual = results(|x| x);
    let mut extreme = usual.clone();
    let corner = ["x", "y"].map(|name| (name.to_owned(), ParameterValue::Double(0.0)));
    extreme.push(measured(13, ParameterValues::from(corner), -1e30));
    let means = |trials: &[CompletedTrial]| -> Vec<f64> {
        let history = History { completed: trials, pending: &[] };
        let outcomes = Outcomes::new(&bandit.encoding, &bandit.outputs, history).unwrap();
        let evidence = outcomes.objectives[0].evidence(&bandit.encoding);
        // Good points: the better half of the usual results.
        let mut rows = (0..12).collect::<Vec<usize>>();
        rows.sort_by(|&a, &b| evidence.data.values[b].total_cmp(&evidence.data.values[a]));
        rows.truncate(6);
        posterior(&bandit, trials).predict(&evidence.data.points.select_rows(&rows)).means.as_slice().to_vec()
    };
    let (before, after) = (means(&usual), means(&extreme));
    for (before, after) in before.iter().zip(&after) {
        assert!((before - after).abs() < 0.3, "{before:?} {after:?}");
    }
}

#[test]
fn first_trials_move_one_parameter_at_a_time_without_repeats() {
    let switch = || ParameterKind::Integer { min: 0, max: 1, scale: ScaleType::UnitLinear };
    let levels = ParameterKind::Categorical { values: vec!["x".into(), "y".into()] };
    let unit = double(0.0, 1.0, ScaleType::UnitLinear);
    let bandit = bandit(vec![("a", switch()), ("b", switch()), ("c", levels), ("d", unit)], Goal::Maximize);
    let found = suggest(&bandit, History::default(), 5);
    for (index, one) in found.iter().enumerate() {
        assert!(!found[..index].contains(one), "{found:?}");
        let different = one.iter().filter(|(name, value)| found[0][*name] != **value).count();
        assert_eq!(different, usize::from(index > 0), "{found:?}");
    }
}

/// Choices of an operation for each of six places, listed in the given order, and one number.
fn choices(operations: [&str; 5]) -> GpBandit {
    let levels = ParameterKind::Categorical { values: operations.map(str::to_owned).to_vec() };
    let places = ["a", "b", "c", "d", "e", "f"].map(|place| (place, levels.clone()));
    bandit(places.into_iter().chain([("rate", double(0.0, 1.0, ScaleType::UnitLinear))]).collect(), Goal::Maximize)
}

#[test]
fn every_level_is_tried_first_once_in_any_order_of_the_list() {
    let run = |bandit: GpBandit| -> Vec<ParameterValues> {
        let mut trials: Vec<CompletedTrial> = Vec::new();
        for id in 1..=7 {
            let point = suggest(&bandit, History { completed: &trials, pending: &[] }, 1).remove(0);
            trials.push(measured(id, point, (id as f64).sin()));
        }
        trials.into_iter().map(|trial| trial.parameters).collect()
    };
    let trials = run(choices(["none", "skip", "small", "large", "pool"]));
    assert_eq!(run(choices(["pool", "large", "none", "small", "skip"])), trials);
    for place in ["a", "b", "c", "d", "e", "f"] {
        let levels: std::collections::BTreeSet<String> =
            trials[..5].iter().map(|trial| trial[place].to_string()).collect();
        assert_eq!(levels.len(), 5, "{place}: {trials:?}");
    }
}
