//! Normalisation of densities, composition of the groups, and location of suggestions.

use super::groups::Groups;
use super::kernel::Kernel;
use super::mixture::{Component, Mixture};
use super::*;
use crate::encoding::FeatureKind;
use crate::problem::{
    CompletedTrial, Condition, Fidelity, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, PendingTrial,
    ScaleType, SearchSpace, TrialOutcome,
};

fn problem(kinds: Vec<(&str, ParameterKind)>) -> ProblemStatement {
    let parameters = kinds.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metric = MetricSpec { name: "y".into(), goal: Goal::Maximize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

fn double() -> ParameterKind {
    ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear }
}

fn integer(max: i64, scale: ScaleType) -> ParameterKind {
    ParameterKind::Integer { min: 1, max, scale }
}

fn categorical(levels: &[&str]) -> ParameterKind {
    ParameterKind::Categorical { values: levels.iter().map(|&level| level.to_owned()).collect() }
}

fn component(point: &[f64]) -> Component {
    Component { point: point.to_vec(), active: vec![true; point.len()], weight: 1.0 }
}

fn completed(encoding: &Encoding, id: u64, point: &[f64], value: Option<f64>) -> CompletedTrial {
    let outcome = value.map_or(TrialOutcome::Infeasible, |value| TrialOutcome::measured(vec![value]));
    CompletedTrial { id: TrialId(id), parameters: encoding.decode(point), outcome }
}

fn suggestions(problem: &ProblemStatement, completed: &[CompletedTrial], pending: &[PendingTrial]) -> Vec<Vec<f64>> {
    let designer = TreeParzen::new(problem, 3).unwrap();
    let encoding = Encoding::new(problem.search_space());
    let ask = |id| {
        let answer = designer.suggest(History { completed, pending }, SuggestRequest::one(TrialId(id))).unwrap();
        encoding.encode(&answer[0].parameters).unwrap()
    };
    (1_000..1_040).map(ask).collect()
}

/// All feasible coordinates of a feature with their measure: midpoints of small intervals, or 1 for a value.
fn quadrature(kind: &FeatureKind) -> Vec<(f64, f64)> {
    const INTERVALS: usize = 400;
    let width = 1.0 / INTERVALS as f64;
    match kind {
        FeatureKind::Continuous | FeatureKind::LargeGrid => {
            (0..INTERVALS).map(|i| ((i as f64 + 0.5) * width, width)).collect()
        }
        FeatureKind::Grid { points } => points.iter().map(|&point| (point, 1.0)).collect(),
        FeatureKind::Categorical { levels } => (0..*levels).map(|level| (level as f64, 1.0)).collect(),
    }
}

fn kernels(encoding: &Encoding, width: f64, other: f64) -> Vec<Kernel> {
    encoding.features().iter().map(|feature| Kernel::new(&feature.kind, width, other)).collect()
}

#[test]
fn kernels_integrate_to_one() {
    let kinds = [
        double(),
        integer(2, ScaleType::UnitLinear),
        integer(9, ScaleType::UnitLog),
        integer(900, ScaleType::UnitReverseLog),
        integer(2_000_000, ScaleType::UnitLinear),
        ParameterKind::Discrete { values: vec![1.0, 1.5, 7.0], scale: ScaleType::UnitLinear },
        categorical(&["a", "b", "c", "d"]),
    ];
    for kind in kinds {
        let encoding = Encoding::new(problem(vec![("p", kind.clone())]).search_space());
        let feature = &encoding.features()[0].kind;
        let values = quadrature(feature);
        for center in [values[0].0, values[values.len() / 3].0, values[values.len() - 1].0] {
            for width in [0.05, 0.3, 2.0] {
                let components = [component(&[center])];
                let mut mixture = Mixture::new(&components, kernels(&encoding, width, 0.3));
                let mut scratch = vec![];
                let mut density = |x: f64| mixture.log_density(&[x], &[true], &mut scratch).exp();
                let total: f64 = values.iter().map(|(x, measure)| measure * density(*x)).sum();
                assert!((total - 1.0).abs() < 1e-3, "{kind:?}, center {center}, width {width}: {total}");
            }
        }
    }
}

#[test]
fn mixtures_integrate_to_one_also_with_inactive_features() {
    let space =
        problem(vec![("a", double()), ("b", integer(3, ScaleType::UnitLog)), ("c", categorical(&["x", "y", "z"]))]);
    let encoding = Encoding::new(space.search_space());
    let mut components = [component(&[0.9, 0.0, 2.0]), component(&[0.2, 1.0, 0.0]), component(&[0.5, 0.5, 1.0])];
    components[1].weight = 3.0;
    components[2].active = vec![false, true, false];
    let mut mixture = Mixture::new(&components, kernels(&encoding, 0.15, 0.2));
    let [a, b, c] = [0, 1, 2].map(|j| quadrature(&encoding.features()[j].kind));
    let mut scratch = vec![];
    let mut total = 0.0;
    for (x, x_measure) in &a {
        for (y, y_measure) in &b {
            for (z, z_measure) in &c {
                let density = mixture.log_density(&[*x, *y, *z], &[true; 3], &mut scratch).exp();
                total += x_measure * y_measure * z_measure * density;
            }
        }
    }
    assert!((total - 1.0).abs() < 1e-4, "{total}");
    // Features inactive at the point are left out; the density of the others is normalised.
    let density = |x: &f64, scratch: &mut Vec<f64>, mixture: &mut Mixture<'_>| {
        mixture.log_density(&[*x, 0.5, 0.0], &[true, false, false], scratch).exp()
    };
    let total: f64 = a.iter().map(|(x, measure)| measure * density(x, &mut scratch, &mut mixture)).sum();
    assert!((total - 1.0).abs() < 1e-4, "{total}");
}

#[test]
fn draws_follow_the_density() {
    const DRAWS: usize = 20_000;
    let space = problem(vec![("b", integer(5, ScaleType::UnitLog)), ("c", categorical(&["x", "y", "z"]))]);
    let encoding = Encoding::new(space.search_space());
    let components = [component(&[1.0, 0.0]), component(&[0.0, 2.0])];
    let mut mixture = Mixture::new(&components, kernels(&encoding, 0.3, 0.4));
    let mut rng = stream(1, TrialId(1), "draws");
    let draws: Vec<Vec<f64>> = (0..DRAWS).map(|_| mixture.draw(&encoding, &mut rng).0).collect();
    let mut scratch = vec![];
    for (b, _) in quadrature(&encoding.features()[0].kind) {
        for (c, _) in quadrature(&encoding.features()[1].kind) {
            let expected = mixture.log_density(&[b, c], &[true; 2], &mut scratch).exp() * DRAWS as f64;
            let count = draws.iter().filter(|draw| draw[..] == [b, c]).count() as f64;
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "({b}, {c}): {count}, {expected} expected");
        }
    }
}

#[test]
fn newly_active_features_are_drawn_from_trials_that_have_them() {
    // The second feature is active only if the first one is above a half.
    let above = (7..=11).map(ParameterValue::Integer).collect();
    let a = ParameterSpec::new("a", integer(11, ScaleType::UnitLinear)).unwrap();
    let b = ParameterSpec::new("b", double()).unwrap().with_condition(Condition::new("a", above));
    let encoding = Encoding::new(&SearchSpace::new(vec![a, b]).unwrap());
    let mut without = component(&[0.5, 0.5]);
    without.active[1] = false;
    without.weight = 1e9;
    let components = [without, component(&[0.9, 0.9])];
    let mixture = Mixture::new(&components, kernels(&encoding, 0.05, 0.0));
    let mut rng = stream(1, TrialId(1), "draws");
    let mut seen = [0, 0];
    for _ in 0..1_000 {
        let (point, active) = mixture.draw(&encoding, &mut rng);
        seen[usize::from(active[1])] += 1;
        if active[1] {
            assert!((point[1] - 0.9).abs() < 0.3, "{point:?}");
        }
    }
    assert!(seen[0] > 500 && seen[1] > 50, "{seen:?}");
}

#[test]
fn density_does_not_depend_on_labels_of_levels() {
    let encoding = Encoding::new(problem(vec![("c", categorical(&["a", "b", "c", "d"]))]).search_space());
    let relabel = |level: usize| [2.0, 0.0, 3.0, 1.0][level];
    let original: Vec<Component> = [0, 0, 1, 3].map(|level| component(&[level as f64])).to_vec();
    let renamed: Vec<Component> = [0, 0, 1, 3].map(|level| component(&[relabel(level)])).to_vec();
    let mut first = Mixture::new(&original, kernels(&encoding, 0.1, 0.3));
    let mut second = Mixture::new(&renamed, kernels(&encoding, 0.1, 0.3));
    let mut scratch = vec![];
    for level in 0..4 {
        let before = first.log_density(&[level as f64], &[true], &mut scratch);
        let after = second.log_density(&[relabel(level)], &[true], &mut scratch);
        assert!((before - after).abs() < 1e-14);
    }
}

#[test]
fn good_trials_are_the_best_and_include_one_that_was_not_stopped() {
    let encoding = Encoding::new(problem(vec![("a", double())]).search_space());
    let mut trials: Vec<CompletedTrial> =
        (1..=20).map(|id| completed(&encoding, id, &[id as f64 / 20.0], Some(id as f64))).collect();
    trials.push(completed(&encoding, 21, &[0.01], None));
    let pending = [PendingTrial { id: TrialId(22), parameters: encoding.decode(&[0.02]) }];
    let groups = |trials: &[CompletedTrial]| {
        let history = History { completed: trials, pending: &pending };
        let groups = Groups::new(&encoding, Goal::Maximize, history).unwrap();
        assert_eq!(groups.good.len() + groups.bad.len(), 22);
        let firsts = |group: &[Component]| group.iter().map(|component| component.point[0]).collect::<Vec<_>>();
        (firsts(&groups.good), firsts(&groups.bad))
    };
    let (good, bad) = groups(&trials);
    assert_eq!(good[0], 1.0);
    assert!(good.windows(2).all(|pair| pair[0] > pair[1]), "{good:?}");
    assert!(bad.contains(&0.01) && bad.contains(&0.02), "failed and pending trials are not good: {bad:?}");
    for trial in &mut trials[3..20] {
        if let TrialOutcome::Measured { fidelity, .. } = &mut trial.outcome {
            *fidelity = Fidelity::Partial;
        }
    }
    let (good, _) = groups(&trials);
    assert!(good.contains(&0.15), "the best trial that was not stopped is the third: {good:?}");
}

#[test]
fn only_one_of_equal_values_is_good_and_the_plateau_is_reported() {
    let encoding = Encoding::new(problem(vec![("a", double())]).search_space());
    let groups = |trials: &[CompletedTrial]| {
        let groups = Groups::new(&encoding, Goal::Maximize, History { completed: trials, pending: &[] }).unwrap();
        let good = groups.good.iter().map(|component| component.point[0]).collect::<Vec<_>>();
        assert_eq!(good.len() + groups.bad.len(), trials.len());
        (good, groups.plateau)
    };
    // 30 trials, of which three are good; the values fall in steps of five.
    let coordinate = |id: u64| id as f64 / 32.0;
    let mut trials: Vec<CompletedTrial> =
        (1..=30).map(|id| completed(&encoding, id, &[coordinate(id)], Some(-(((id - 1) / 5) as f64)))).collect();
    assert_eq!(groups(&trials), ([1, 6, 11].map(coordinate).to_vec(), true));
    // All values are equal: one trial is good.
    let same: Vec<CompletedTrial> = (1..=30).map(|id| completed(&encoding, id, &[coordinate(id)], Some(2.0))).collect();
    assert_eq!(groups(&same), (vec![coordinate(1)], true));
    // Equal values outside the good group are no plateau.
    for (trial, value) in trials.iter_mut().zip([9.0, 8.0, 7.0]) {
        trial.outcome = TrialOutcome::measured(vec![value]);
    }
    assert_eq!(groups(&trials), ([1, 2, 3].map(coordinate).to_vec(), false));
    // If all good trials were stopped early, the best one that was not replaces the last, even with an equal value.
    for trial in &mut trials[..5] {
        if let TrialOutcome::Measured { fidelity, .. } = &mut trial.outcome {
            *fidelity = Fidelity::Partial;
        }
    }
    trials[5].outcome = TrialOutcome::measured(vec![7.0]);
    assert_eq!(groups(&trials), ([1, 2, 6].map(coordinate).to_vec(), false));
}

#[test]
fn suggestions_concentrate_near_good_trials() {
    let space =
        problem(vec![("a", double()), ("k", integer(9, ScaleType::UnitLinear)), ("c", categorical(&["x", "y", "z"]))]);
    let encoding = Encoding::new(space.search_space());
    let trials: Vec<CompletedTrial> = (1..=60)
        .map(|id| {
            let mut point = sobol_point(&encoding, 11, TrialId(id));
            encoding.snap(&mut point);
            let value = -(point[0] - 0.3).abs() - f64::from(point[1] != 1.0) - (point[2] - 0.75).abs();
            completed(&encoding, id, &point, Some(value))
        })
        .collect();
    let points = suggestions(&space, &trials, &[]);
    let share = |test: &dyn Fn(&[f64]) -> bool| points.iter().filter(|point| test(point)).count();
    assert!(share(&|point| (point[0] - 0.3).abs() < 0.25) >= 30, "{points:?}");
    assert!(share(&|point| point[1] == 1.0) >= 36, "{points:?}");
    assert!(share(&|point| (point[2] - 0.75).abs() < 0.3) >= 30, "{points:?}");
}

#[test]
fn pending_and_failed_trials_repel_suggestions() {
    let space = problem(vec![("a", double())]);
    let encoding = Encoding::new(space.search_space());
    let mut trials: Vec<CompletedTrial> = (0..20)
        .map(|id| {
            let u = f64::from(id) / 19.0;
            completed(&encoding, id as u64 + 1, &[u], Some(-(u - 0.5).abs()))
        })
        .collect();
    let near = |points: &[Vec<f64>]| points.iter().filter(|point| (point[0] - 0.5).abs() < 0.05).count();
    let free = near(&suggestions(&space, &trials, &[]));
    let pending: Vec<PendingTrial> =
        (50..60).map(|id| PendingTrial { id: TrialId(id), parameters: encoding.decode(&[0.5]) }).collect();
    let beside_pending = near(&suggestions(&space, &trials, &pending));
    trials.extend((50..60).map(|id| completed(&encoding, id, &[0.5], None)));
    let beside_failed = near(&suggestions(&space, &trials, &[]));
    assert!(beside_pending < free && beside_failed < free, "{free} {beside_pending} {beside_failed}");
    assert_eq!(beside_pending, beside_failed);
}

#[test]
fn suggestions_depend_on_the_order_of_values_only() {
    let space = problem(vec![("a", double()), ("c", categorical(&["x", "y"]))]);
    let encoding = Encoding::new(space.search_space());
    let trials = |transform: &dyn Fn(f64) -> f64| -> Vec<CompletedTrial> {
        let trial = |id| {
            let point = sobol_point(&encoding, 5, TrialId(id));
            completed(&encoding, id, &point, Some(transform(-(point[0] - 0.3).abs())))
        };
        (1..=30).map(trial).collect()
    };
    let plain = suggestions(&space, &trials(&|y| y), &[]);
    assert_eq!(suggestions(&space, &trials(&|y| 1e6 * y - 3.0), &[]), plain);
    assert_eq!(suggestions(&space, &trials(&f64::exp), &[]), plain);
}

#[test]
fn first_trial_is_the_centre() {
    let space = problem(vec![
        ("a", ParameterKind::Double { min: 1.0, max: 100.0, scale: ScaleType::UnitLog }),
        ("b", integer(5, ScaleType::UnitLinear)),
    ]);
    let designer = TreeParzen::new(&space, 1).unwrap();
    let first = designer.suggest(History::default(), SuggestRequest::one(TrialId::FIRST)).unwrap();
    let ParameterValue::Double(a) = first[0].parameters["a"] else { panic!("expected a double") };
    assert!((a - 10.0).abs() < 1e-12);
    assert_eq!(first[0].parameters["b"], ParameterValue::Integer(3));
}
