use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace,
};
use tunesmith_contract::{CountingStore, samples};
use tunesmith_domain::{Algorithm, Completion, NewTrial, StudyFields, StudyId, TrialChange, TrialStart};
use tunesmith_store::MemoryStore;

use super::super::SearchPolicy;
use super::*;

type Counting = Arc<CountingStore<MemoryStore>>;

const DOUBLE: ParameterKind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };

fn integer(max: i64) -> ParameterKind {
    ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear }
}

async fn create(store: &dyn Store, name: &str, kind: ParameterKind, algorithm: Algorithm) -> StudyFields {
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "accuracy".to_owned(), goal: Goal::Maximize }];
    let problem = ProblemStatement::new(space, metrics).unwrap();
    let fields = StudyFields { algorithm, seed: 7, ..StudyFields::new(name.parse().unwrap(), problem, samples::at(0)) };
    store.create_study(Study::restore(fields.clone())).await.unwrap();
    fields
}

/// Adds a completed trial with this point.
async fn add(store: &dyn Store, id: &StudyId, x: ParameterValue) {
    add_all(store, id, vec![x]).await;
}

async fn add_all(store: &dyn Store, id: &StudyId, points: Vec<ParameterValue>) {
    let study = store.study(id).await.unwrap();
    let new = (0..).zip(points).map(|(index, x)| NewTrial {
        id: study.next_trial_id.offset(index),
        parameters: BTreeMap::from([("x".to_owned(), x)]),
        start: TrialStart::Completed(Completion::Succeeded { final_measurement: samples::measurement(1, 0.5) }.into()),
        request_key: None,
        ..samples::new_trial(1)
    });
    store.create_trials(id, new.collect()).await.unwrap();
}

async fn delete(store: &dyn Store, id: &StudyId, trial: u64) {
    store.change_trial(id, TrialId(trial), TrialChange::Delete { at: samples::at(99) }).await.unwrap();
}

/// The next point, without handing it out.
async fn next(policy: &SearchPolicy, store: &dyn Store, id: &StudyId) -> Option<ParameterValue> {
    let study = store.study(id).await.unwrap();
    let computed =
        policy.compute(&study, NonZeroUsize::MIN, Purpose::Proposal, &Interruption::default()).await.unwrap();
    computed.suggestions.points.first().map(|point| point.parameters["x"].clone())
}

fn doubles(count: u32) -> Vec<ParameterValue> {
    (0..count).map(|index| ParameterValue::Double(f64::from(index) / f64::from(count))).collect()
}

#[tokio::test]
async fn stopped_trial_counts_with_its_predicted_end_and_an_unpredicted_one_with_its_last_value() {
    let store = MemoryStore::new();
    let study = create(&store, "p/l/s", DOUBLE, Algorithm::GaussianProcessBandit).await;
    let mut outcomes = Vec::new();
    let prediction = |value| Some(FinalPrediction { value, deviation: 0.05 });
    for (number, predicted_final) in [(1, prediction(0.25)), (2, None), (3, prediction(f64::NAN))] {
        let id = TrialId(number);
        let parameters = BTreeMap::from([("x".to_owned(), ParameterValue::Double(0.1 * number as f64))]);
        store.create_trial(&study.id, NewTrial { parameters, ..samples::new_trial(number) }).await.unwrap();
        store.change_trial(&study.id, id, samples::begin(1)).await.unwrap();
        store.change_trial(&study.id, id, TrialChange::Stop { predicted_final }).await.unwrap();
        let trial = store.change_trial(&study.id, id, samples::succeed(1, 0.75)).await.unwrap();
        assert_eq!(trial.final_measurement.as_ref().unwrap().value("accuracy"), Some(0.75), "people see this value");
        outcomes.push(outcome(&trial, &study.problem));
    }
    let expected = |value, fidelity| TrialOutcome::Measured { values: vec![value], fidelity };
    let last = expected(0.75, Fidelity::Partial);
    assert_eq!(outcomes, [expected(0.25, Fidelity::Predicted { deviation: 0.05 }), last.clone(), last]);
}

#[tokio::test]
async fn random_and_quasi_random_search_read_no_trials_where_points_do_not_repeat() {
    let store: Counting = Arc::default();
    let shared: Arc<dyn Store> = store.clone();
    for (name, algorithm) in [("p/l/r", Algorithm::RandomSearch), ("p/l/q", Algorithm::QuasiRandomSearch)] {
        let study = create(&*store, name, DOUBLE, algorithm.clone()).await;
        add_all(&*store, &study.id, doubles(1500)).await;
        // A continuing study draws different points.
        let fields = create(&*store, &format!("{name}2"), DOUBLE, algorithm).await;
        let later = Study::restore(StudyFields { continued_studies: vec![study.id.clone()], ..fields });
        let policy = SearchPolicy::new(Arc::clone(&shared), 1);
        let first = policy.suggest(&store.study(&study.id).await.unwrap(), NonZeroUsize::MIN).await.unwrap();
        let second = policy.suggest(&store.study(&study.id).await.unwrap(), NonZeroUsize::MIN).await.unwrap();
        assert_eq!((first.first_id, second.first_id), (TrialId(1501), TrialId(1502)));
        assert_ne!(first.points, second.points);
        let other = policy.suggest(&later, NonZeroUsize::new(3).unwrap()).await.unwrap();
        assert_eq!(other.points[0], first.points[0], "it is the 1501st point of both studies");
        assert_eq!(store.take_listed(), 0, "{name}");
        let histories = policy.histories.get(&study.id).unwrap();
        assert_eq!(histories.lock().await.bytes(), 0);
    }
}

#[tokio::test]
async fn initial_points_are_looked_for_until_all_were_found() {
    let store: Counting = Arc::default();
    let shared: Arc<dyn Store> = store.clone();
    let fields = create(&*store, "p/l/s", DOUBLE, Algorithm::RandomSearch).await;
    let point = |x: f64| BTreeMap::from([("x".to_owned(), ParameterValue::Double(x))]);
    let points = vec![point(0.25), point(0.75), point(0.25)];
    let study = async || {
        let now = store.study(&fields.id).await.unwrap();
        Study::restore(StudyFields { initial_points: points.clone(), ..(*now).clone() })
    };
    let policy = SearchPolicy::new(Arc::clone(&shared), 1);
    let suggested = policy.suggest(&study().await, NonZeroUsize::new(3).unwrap()).await.unwrap();
    let given: Vec<_> = suggested.points.iter().map(|point| point.parameters.clone()).collect();
    assert_eq!(given[..2], points[..2]);
    assert!(!points.contains(&given[2]));
    // Released points are proposed again.
    policy.release(&fields.id, suggested.reservation).await;
    let again = policy.suggest(&study().await, NonZeroUsize::new(3).unwrap()).await.unwrap();
    assert_eq!(again.points, suggested.points);
    policy.release(&fields.id, again.reservation).await;

    add_all(&*store, &fields.id, given.into_iter().map(|mut point| point.remove("x").unwrap()).collect()).await;
    add_all(&*store, &fields.id, doubles(3001)).await;
    for (number, policy) in [(1, SearchPolicy::new(Arc::clone(&shared), 1)), (2, policy)] {
        store.take_listed();
        let suggested = policy.suggest(&study().await, NonZeroUsize::MIN).await.unwrap();
        assert!(!points.contains(&suggested.points[0].parameters));
        // Several pages are read concurrently.
        assert!(store.take_listed() <= 4003);
        policy.suggest(&study().await, NonZeroUsize::MIN).await.unwrap();
        assert_eq!(store.take_listed(), 0);
        delete(&*store, &fields.id, number).await;
        let after = policy.suggest(&study().await, NonZeroUsize::MIN).await.unwrap();
        assert!(!points.contains(&after.points[0].parameters), "it was proposed before");
    }
}

#[tokio::test]
async fn points_of_a_finite_space_are_known_by_number_and_read_once() {
    let grid = Algorithm::GridSearch { double_resolution: BTreeMap::new() };
    for (index, algorithm) in [Algorithm::RandomSearch, Algorithm::QuasiRandomSearch, grid].into_iter().enumerate() {
        let store: Counting = Arc::default();
        let shared: Arc<dyn Store> = store.clone();
        let study = create(&*store, "p/l/s", integer(1200), algorithm).await;
        add_all(&*store, &study.id, (1..=1190).map(ParameterValue::Integer).collect()).await;
        let policy = SearchPolicy::new(Arc::clone(&shared), 1);
        next(&policy, &*store, &study.id).await.unwrap();
        assert_eq!(store.take_listed(), 1190);
        let history = policy.histories.get(&study.id).unwrap();
        assert_eq!(history.lock().await.bytes(), 1190 * POINT_BYTES);
        let mut left = BTreeSet::new();
        while let Some(ParameterValue::Integer(x)) = next(&policy, &*store, &study.id).await {
            assert!(left.insert(x), "algorithm {index} repeats {x}");
            add(&*store, &study.id, ParameterValue::Integer(x)).await;
        }
        assert_eq!(left, (1191..=1200).collect());
        assert_eq!(store.take_listed(), 10);
        // A deleted trial's point may be proposed again, once no other trial has it.
        add(&*store, &study.id, ParameterValue::Integer(5)).await;
        delete(&*store, &study.id, 5).await;
        assert_eq!(next(&policy, &*store, &study.id).await, None);
        delete(&*store, &study.id, 1201).await;
        for policy in [policy, SearchPolicy::new(Arc::clone(&shared), 1)] {
            assert_eq!(next(&policy, &*store, &study.id).await, Some(ParameterValue::Integer(5)));
        }
    }
}

#[tokio::test]
async fn model_of_a_part_of_the_trials_repeats_no_point_of_the_others() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let fields = create(&*store, "p/l/s", integer(60), Algorithm::Tpe).await;
    let study = Study::restore(fields);
    let mut history = StudyHistory::open(&*store, &study).await.unwrap();
    history.trials = ModelTrials::with_window(&study.problem, 5);
    let mut seen = BTreeSet::new();
    loop {
        let study = store.study(&study.id).await.unwrap();
        history.refresh(&*store, &study).await.unwrap();
        let suggested = history
            .suggestions(&study, NonZeroUsize::MIN, Purpose::Proposal, &Interruption::default())
            .unwrap()
            .suggestions;
        let Some(point) = suggested.points.first() else {
            assert_eq!(suggested.end, Some(StudyEnd::Exhausted));
            break;
        };
        let ParameterValue::Integer(x) = point.parameters["x"] else { panic!("{point:?}") };
        assert!(seen.insert(x), "{x} is repeated after {} trials", seen.len());
        add(&*store, &study.id, ParameterValue::Integer(x)).await;
        assert!(history.trials.len() <= 10, "{} trials are in memory", history.trials.len());
    }
    assert_eq!(seen, (1..=60).collect());
    assert!(history.trials.is_partial());
}
