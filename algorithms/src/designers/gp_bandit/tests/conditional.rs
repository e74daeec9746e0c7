use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use nalgebra::DMatrix;

use super::super::*;
use super::{double, problem};
use crate::acquisition::Region;
use crate::encoding::FeatureKind;
use crate::gp::Hyperparameters;
use crate::problem::{
    CompletedTrial, Condition, Goal, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ScaleType,
    SearchSpace, TrialOutcome,
};
use crate::sampling::RandomPoints;

fn integer(name: &str, min: i64, max: i64) -> ParameterSpec {
    ParameterSpec::new(name, ParameterKind::Integer { min, max, scale: ScaleType::UnitLinear }).unwrap()
}

fn categorical(name: &str, levels: &[&str]) -> ParameterSpec {
    let values = levels.iter().map(|level| (*level).to_owned()).collect();
    ParameterSpec::new(name, ParameterKind::Categorical { values }).unwrap()
}

fn under(spec: ParameterSpec, parent: &str, levels: &[&str]) -> ParameterSpec {
    let values = levels.iter().map(|level| ParameterValue::Categorical((*level).to_owned())).collect();
    spec.with_condition(Condition::new(parent, values))
}

/// Three families, two of them with their own parameters, one of those with a nested choice.
fn families() -> Vec<ParameterSpec> {
    vec![
        categorical("family", &["line", "net", "tree"]),
        double("shared", 0.0, 1.0),
        under(double("net_rate", 0.0, 1.0), "family", &["net"]),
        under(categorical("net_solver", &["adam", "sgd"]), "family", &["net"]),
        under(double("net_momentum", 0.0, 1.0), "net_solver", &["sgd"]),
        under(integer("tree_depth", 1, 9), "family", &["tree"]),
    ]
}

fn number(values: &ParameterValues, name: &str) -> Option<f64> {
    match values.get(name)? {
        ParameterValue::Double(value) | ParameterValue::Discrete(value) => Some(*value),
        ParameterValue::Integer(value) => Some(*value as f64),
        ParameterValue::Categorical(_) => None,
    }
}

fn text(values: &ParameterValues, name: &str) -> String {
    values.get(name).map(ToString::to_string).unwrap_or_default()
}

/// 1 for a net with SGD, rate 0.8, momentum 0.3 and shared 0.6; at most 0.9 in other branches.
fn quality(values: &ParameterValues) -> f64 {
    let miss = |name: &str, best: f64| number(values, name).map_or(0.0, |value| (value - best).powi(2));
    let top = match (text(values, "family").as_str(), text(values, "net_solver").as_str()) {
        ("net", "sgd") => 1.0,
        ("net", _) => 0.6,
        ("tree", _) => 0.9 - 0.01 * (number(values, "tree_depth").unwrap_or(0.0) - 4.0).powi(2),
        _ => 0.5,
    };
    top - miss("net_rate", 0.8) - miss("net_momentum", 0.3) - miss("shared", 0.6)
}

fn study(seed: u64, trials: u64) -> Vec<CompletedTrial> {
    let bandit = GpBandit::new(problem(families(), Goal::Maximize), seed).unwrap();
    let mut completed: Vec<CompletedTrial> = Vec::new();
    for id in 1..=trials {
        let history = History { completed: &completed, pending: &[] };
        let suggestions = bandit.suggest(history, SuggestRequest::one(TrialId(id))).unwrap();
        let parameters = suggestions[0].parameters.clone();
        let outcome = TrialOutcome::measured(vec![quality(&parameters)]);
        completed.push(CompletedTrial { id: TrialId(id), parameters, outcome });
    }
    completed
}

/// Other branches have gaps of at least 0.1.
#[test]
fn search_finds_the_best_values_of_the_best_branch() {
    for seed in 1..=3 {
        let trials = study(seed, 45);
        let best = trials.iter().max_by(|a, b| quality(&a.parameters).total_cmp(&quality(&b.parameters))).unwrap();
        let gap = 1.0 - quality(&best.parameters);
        assert!(gap < 0.05, "seed {seed}: {gap:e} at {:?}", best.parameters);
    }
}

#[test]
fn initial_design_visits_every_branch_and_then_moves_one_parameter_at_a_time() {
    let space = SearchSpace::new(families()).unwrap();
    let encoding = Encoding::new(&space);
    let design = initial_design::AxisDesign::new(&encoding, None, 7).points();
    let points: Vec<ParameterValues> = design.iter().map(|point| encoding.decode(point)).collect();
    let names = |point: &ParameterValues| point.keys().cloned().collect::<BTreeSet<_>>();
    // Line, net with Adam, tree, net with SGD; then a step of the line's shared parameter.
    assert_eq!(points[..4].iter().map(names).collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(points.len(), 5);
    assert_eq!(
        points[0],
        [
            ("family".to_owned(), ParameterValue::Categorical("line".into())),
            ("shared".to_owned(), ParameterValue::Double(0.5)),
        ]
        .into()
    );
    for point in &points[..4] {
        for name in ["shared", "net_rate", "net_momentum"] {
            assert!(number(point, name).is_none_or(|value| value == 0.5), "{point:?}");
        }
    }
    assert_eq!(design.iter().map(|point| format!("{point:?}")).collect::<BTreeSet<_>>().len(), 5);
    for point in &design {
        let mut canonical = point.clone();
        encoding.snap(&mut canonical);
        assert_eq!(&canonical, point);
    }
    assert_eq!(initial_design::trials(&encoding), 6);
}

/// The trust region restricts only features that are active at the incumbent.
#[test]
fn proposals_are_canonical_and_inside_the_box_along_active_features() {
    let completed = study(5, 24);
    let encoding = Encoding::new(&SearchSpace::new(families()).unwrap());
    let bandit = GpBandit::new(problem(families(), Goal::Maximize), 5).unwrap();
    let outcomes = Outcomes::new(&encoding, &bandit.outputs, History { completed: &completed, pending: &[] }).unwrap();
    let model =
        Model::of_one_objective(&encoding, &outcomes, &bandit.fits, None, |trial| bandit.is_global(trial), 1).unwrap();
    let incumbent = &model.anchors[0];
    let branches: BTreeSet<_> = model.anchors.iter().map(|anchor| encoding.active(anchor)).collect();
    assert!(branches.len() >= 4, "anchors of {} branches", branches.len());
    let ordered: Vec<bool> =
        encoding.features().iter().map(|feature| !matches!(feature.kind, FeatureKind::Categorical { .. })).collect();
    let sides = model_search::active_sides(
        &encoding,
        model.trust_region.as_ref().unwrap(),
        &model.lengthscales,
        &ordered,
        incumbent,
    );
    let active_at_incumbent = encoding.active(incumbent);
    for (j, side) in sides.iter().enumerate() {
        assert_eq!(side.is_finite(), active_at_incumbent[j]);
    }
    for id in [25, 29, 31, 35] {
        let history = History { completed: &completed, pending: &[] };
        let request = SuggestRequest { first_trial_id: TrialId(id), count: NonZeroUsize::new(1).unwrap() };
        let parameters = &bandit.suggest(history, request).unwrap()[0].parameters;
        let point = encoding.encode(parameters).unwrap();
        let active = encoding.active(&point);
        for j in (0..point.len()).filter(|&j| ordered[j] && active[j] && active_at_incumbent[j]) {
            assert!((point[j] - incumbent[j]).abs() <= 0.5 * sides[j] + 1e-9, "{j}: {parameters:?}");
        }
    }
}

/// Seventeen parameters are active at the first centre; the second branch has one more.
#[test]
fn joint_steps_start_at_the_first_centre_and_are_canonical() {
    let mut space = super::cube(16);
    space
        .extend([categorical("branch", &["first", "second"]), under(double("depth", 0.0, 1.0), "branch", &["second"])]);
    let encoding = Encoding::new(&SearchSpace::new(space).unwrap());
    let points = initial_design::AxisDesign::new(&encoding, None, 7).points();
    assert_eq!((points.len(), initial_design::trials(&encoding)), (9, 9));
    let own = |j: usize| encoding.parent(j).is_none();
    for point in &points[2..] {
        let moved = (0..point.len()).filter(|&j| own(j) && point[j] != points[0][j]).count();
        assert_eq!(moved, 8, "{point:?}");
        let mut canonical = point.clone();
        encoding.snap(&mut canonical);
        assert_eq!(&canonical, point);
    }
}

#[test]
fn every_third_trial_explores_the_other_branches_in_rotation() {
    let encoding = Encoding::new(&SearchSpace::new(families()).unwrap());
    let anchors = super::super::initial_design::AxisDesign::new(&encoding, None, 7).points();
    let active: Vec<Vec<bool>> = anchors.iter().map(|anchor| encoding.active(anchor)).collect();
    let explored = |trial| branches::branch_to_explore(&encoding, &anchors, TrialId(trial));
    for id in (1..20).filter(|id| id % 3 != 0) {
        assert_eq!(explored(id), None);
    }
    let points: Vec<&[f64]> = [3, 6, 9, 12].into_iter().filter_map(explored).collect();
    assert!(points.iter().all(|point| encoding.active(point) != active[0]));
    assert_eq!(points.iter().map(|point| encoding.active(point)).collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(points[0], points[3]);
    assert_eq!(branches::branch_to_explore(&encoding, &anchors[..1], TrialId(3)), None);

    let region = Region::whole(&encoding).branch_of(&encoding, points[0]);
    let random: Vec<Vec<f64>> = RandomPoints::new(&encoding, 1, TrialId(1), "test").take(200).collect();
    let same = |point: &Vec<f64>| encoding.active(point) == encoding.active(points[0]);
    assert!(random.iter().any(same) && random.iter().all(|point| region.contains(&encoding, point) == same(point)));
}

/// The flat branch is better than most of the corner branch, but nowhere below 0.2. The corner branch is best near one
/// corner only.
#[test]
fn branch_that_looks_worse_at_first_is_still_explored() {
    let parameters = vec![
        categorical("kind", &["corner", "flat"]),
        under(double("corner_x", 0.0, 1.0), "kind", &["corner"]),
        under(double("corner_y", 0.0, 1.0), "kind", &["corner"]),
        under(double("flat_x", 0.0, 1.0), "kind", &["flat"]),
    ];
    let bandit = GpBandit::new(problem(parameters, Goal::Minimize), 2).unwrap();
    let value = |values: &ParameterValues| match (number(values, "corner_x"), number(values, "corner_y")) {
        (Some(x), Some(y)) => 8.0 * ((x - 0.93).powi(2) + (y - 0.08).powi(2)),
        _ => 0.2 + 0.1 * (number(values, "flat_x").unwrap() - 0.4).powi(2),
    };
    let mut completed: Vec<CompletedTrial> = Vec::new();
    for id in 1..=40 {
        let history = History { completed: &completed, pending: &[] };
        let parameters = bandit.suggest(history, SuggestRequest::one(TrialId(id))).unwrap().remove(0).parameters;
        let outcome = TrialOutcome::measured(vec![value(&parameters)]);
        completed.push(CompletedTrial { id: TrialId(id), parameters, outcome });
    }
    let best = completed.iter().map(|trial| value(&trial.parameters)).fold(f64::INFINITY, f64::min);
    assert!(best < 0.1, "{best}");
}

#[test]
fn covariance_of_points_of_all_branches_is_positive_semidefinite() {
    let encoding = Encoding::new(&SearchSpace::new(families()).unwrap());
    let points: Vec<Vec<f64>> = RandomPoints::new(&encoding, 1, TrialId(1), "test").take(60).collect();
    let branches: BTreeSet<_> = points.iter().map(|point| encoding.active(point)).collect();
    assert_eq!(branches.len(), 4);
    let rows = DMatrix::from_fn(points.len(), encoding.dimensions(), |row, j| points[row][j]);
    let categorical: Vec<bool> =
        encoding.features().iter().map(|feature| matches!(feature.kind, FeatureKind::Categorical { .. })).collect();
    let kernel = Hyperparameters::default_for(&categorical).kernel;
    let covariance = kernel.cross(&rows, &rows);
    let least = covariance.symmetric_eigenvalues().min();
    assert!(least > -1e-9, "{least:e}");
    // Features inactive at both points contribute no distance.
    let line = |u: f64| encoding.encode(&encoding.decode(&[0.0, u, u, u, 0.25, u])).unwrap();
    assert_eq!(line(0.1), line(0.9));
}

#[test]
fn parents_too_long_to_list_are_searched() {
    // One of a hundred thousand values has the child required by the best value.
    let child = double("x", 0.0, 1.0);
    let condition = Condition::new("k", vec![ParameterValue::Integer(70_000)]);
    let parameters = vec![integer("k", 1, 100_000), child.with_condition(condition)];
    let bandit = GpBandit::new(problem(parameters, Goal::Minimize), 3).unwrap();
    let value = |values: &ParameterValues| match number(values, "x") {
        Some(x) => (x - 0.2).powi(2) - 1.0,
        None => (number(values, "k").unwrap() - 30_000.0).abs() / 1e5,
    };
    let mut completed: Vec<CompletedTrial> = Vec::new();
    for id in 1..=24 {
        let history = History { completed: &completed, pending: &[] };
        let suggestions = bandit.suggest(history, SuggestRequest::one(TrialId(id))).unwrap();
        let parameters = suggestions[0].parameters.clone();
        let outcome = TrialOutcome::measured(vec![value(&parameters)]);
        completed.push(CompletedTrial { id: TrialId(id), parameters, outcome });
    }
    let best = completed.iter().map(|trial| value(&trial.parameters)).fold(f64::INFINITY, f64::min);
    assert!(best < -0.99, "{best}");
}
