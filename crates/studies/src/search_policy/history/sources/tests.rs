use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tunesmith_algorithms::interruption::Interruption;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace, TrialOutcome,
    TrialSuggestion,
};
use tunesmith_contract::samples;
use tunesmith_domain::{
    Algorithm, Completion, CurveAxis, FinalMeasurement, MetricValue, NewTrial, SourceStudies, StudyFields, StudySpec,
    StudyStopping, TrialStart,
};
use tunesmith_store::MemoryStore;

use super::*;
use crate::search_policy::{Purpose, SourceDescription, SourceDescriptions, describe_sources};

const DOUBLE: ParameterKind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };

fn problem(kind: ParameterKind, metrics: &[&str]) -> ProblemStatement {
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metric = |name: &&str| MetricSpec { name: (*name).to_owned(), goal: Goal::Maximize };
    ProblemStatement::new(space, metrics.iter().map(metric).collect()).unwrap()
}

/// Creates the study `name` of one parameter and the metric `accuracy`.
async fn create(
    store: &dyn Store,
    name: &str,
    kind: ParameterKind,
    algorithm: Algorithm,
    sources: SourceStudies,
) -> Study {
    let study = Study::restore(StudyFields {
        algorithm,
        seed: 7,
        continued_studies: sources.continued,
        related_studies: sources.related,
        ..StudyFields::new(name.parse().unwrap(), problem(kind, &["accuracy"]), samples::at(0))
    });
    store.create_study(study.clone()).await.unwrap();
    study
}

fn sources(continued: &[&Study], related: &[&Study]) -> SourceStudies {
    let ids = |studies: &[&Study]| studies.iter().map(|study| study.id.clone()).collect();
    SourceStudies { continued: ids(continued), related: ids(related) }
}

/// Adds completed trials at these points, with a result or failed.
async fn add(store: &dyn Store, study: &Study, trials: impl IntoIterator<Item = (ParameterValue, Option<f64>)>) {
    let first = store.study(&study.id).await.unwrap().next_trial_id;
    let new = (0..).zip(trials).map(|(index, (x, value))| {
        let metrics = value.map(|value| vec![MetricValue { metric: "accuracy".to_owned(), value }]);
        let completion = match metrics {
            Some(metrics) => Completion::Succeeded {
                final_measurement: tunesmith_domain::Measurement { metrics, ..samples::measurement(1, 0.0) },
            },
            None => Completion::Infeasible { reason: "exit code 1".to_owned() },
        };
        NewTrial {
            id: first.offset(index),
            parameters: BTreeMap::from([("x".to_owned(), x)]),
            start: TrialStart::Completed(completion.into()),
            request_key: None,
            ..samples::new_trial(1)
        }
    });
    store.create_trials(&study.id, new.collect()).await.unwrap();
}

/// Points of the unit interval with the values of a peak at 0.3.
fn peak(count: u32) -> impl Iterator<Item = (ParameterValue, Option<f64>)> {
    (0..count).map(move |index| {
        let x = (f64::from(index) + 0.5) / f64::from(count);
        (ParameterValue::Double(x), Some(-(x - 0.3).powi(2)))
    })
}

async fn opened(store: &dyn Store, study: &Study) -> StudyHistory {
    let study = store.study(&study.id).await.unwrap();
    let mut history = StudyHistory::open(store, &study).await.unwrap();
    history.refresh(store, &study).await.unwrap();
    history
}

async fn suggested(store: &dyn Store, study: &Study, count: usize) -> Vec<TrialSuggestion> {
    let current = store.study(&study.id).await.unwrap();
    let count = NonZeroUsize::new(count).unwrap();
    let mut history = opened(store, study).await;
    let computed = history.suggestions(&current, count, Purpose::Proposal, &Interruption::default()).unwrap();
    computed.suggestions.points
}

/// Values of the trials that the designer sees as the study's own.
fn own_values(history: &StudyHistory) -> Vec<f64> {
    let value = |outcome: &TrialOutcome| match outcome {
        TrialOutcome::Measured { values, .. } => values[0],
        TrialOutcome::Infeasible => f64::NAN,
    };
    history.trials.as_history().completed.iter().map(|trial| value(&trial.outcome)).collect()
}

#[tokio::test]
async fn results_of_a_continued_study_enter_and_those_of_a_related_one_do_not() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let gp = || Algorithm::GaussianProcessBandit;
    let first = create(&*store, "p/l/first", DOUBLE, gp(), SourceStudies::default()).await;
    add(&*store, &first, peak(6)).await;
    let other = create(&*store, "p/l/other", DOUBLE, gp(), SourceStudies::default()).await;
    add(&*store, &other, peak(9).map(|(x, value)| (x, value.map(|value| 1000.0 + 50.0 * value)))).await;

    let continued = create(&*store, "p/l/continued", DOUBLE, gp(), sources(&[&first], &[])).await;
    let history = opened(&*store, &continued).await;
    let expected: Vec<f64> = peak(6).filter_map(|(_, value)| value).collect();
    assert_eq!((own_values(&history), history.prior_count), (expected.clone(), 6));

    let related = create(&*store, "p/l/related", DOUBLE, gp(), sources(&[], &[&other])).await;
    let history = opened(&*store, &related).await;
    assert_eq!((own_values(&history), history.prior_count), (Vec::new(), 0));
    let reports = history.source_reports(&Interruption::default()).unwrap();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((&report.study, report.relation, report.own_trials), (&other.id, SourceRelation::Related, 0));
    // Without own results, the model is that of the source study.
    let influence = report.influence.unwrap();
    assert_eq!((influence.trials, influence.rank_correlation, influence.share), (9, None, 1.0));

    let both = create(&*store, "p/l/both", DOUBLE, gp(), sources(&[&first], &[&other])).await;
    let history = opened(&*store, &both).await;
    assert_eq!((own_values(&history), history.prior_count), (expected, 6));
    let reports = history.source_reports(&Interruption::default()).unwrap();
    let use_of = |report: &SourceReport| (report.study.clone(), report.own_trials, report.influence.is_some());
    let uses: Vec<_> = reports.iter().map(use_of).collect();
    assert_eq!(uses, [(other.id.clone(), 0, true), (first.id.clone(), 6, false)]);
    // The same function in another unit predicts the order of the results.
    assert_eq!(reports[0].influence.unwrap().rank_correlation, Some(1.0));
}

#[tokio::test]
async fn unit_of_a_related_study_does_not_matter() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut points = Vec::new();
    for (name, scale, offset) in [("a", 1.0, 0.0), ("b", 1024.0, 0.0), ("c", 1.0, 64.0)] {
        let algorithm = Algorithm::GaussianProcessBandit;
        let source = format!("p/l/source-{name}");
        let source = create(&*store, &source, DOUBLE, algorithm.clone(), SourceStudies::default()).await;
        add(&*store, &source, peak(10).map(|(x, value)| (x, value.map(|value| scale * value + offset)))).await;
        let study = create(&*store, &format!("p/l/{name}"), DOUBLE, algorithm, sources(&[], &[&source])).await;
        let mut own = Vec::new();
        for _ in 0..3 {
            let point = suggested(&*store, &study, 1).await.remove(0).parameters["x"].clone();
            let ParameterValue::Double(x) = point else { panic!("{point:?}") };
            add(&*store, &study, [(ParameterValue::Double(x), Some(-(x - 0.3).powi(2)))]).await;
            own.push(x);
        }
        points.push(own);
    }
    // The first trial is at the best point of the source study, although that study has tried it.
    assert_eq!(points[0][0], 0.25);
    for other in &points[1..] {
        for (one, other) in points[0].iter().zip(other) {
            assert!((one - other).abs() < 1e-6, "{points:?}");
        }
    }
}

#[tokio::test]
async fn points_of_a_continued_study_are_used_and_those_of_a_related_one_are_not() {
    let grid = Algorithm::GridSearch { double_resolution: BTreeMap::new() };
    let integer = ParameterKind::Integer { min: 1, max: 3, scale: ScaleType::UnitLinear };
    for algorithm in [grid, Algorithm::RandomSearch, Algorithm::QuasiRandomSearch, Algorithm::Tpe] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let source = create(&*store, "p/l/source", integer.clone(), algorithm.clone(), SourceStudies::default()).await;
        add(&*store, &source, [1, 3].map(|x| (ParameterValue::Integer(x), Some(1.0)))).await;
        let create = async |name, sources| create(&*store, name, integer.clone(), algorithm.clone(), sources).await;
        let points = async |study: &Study| {
            let mut points: Vec<String> =
                suggested(&*store, study, 5).await.iter().map(|point| point.parameters["x"].to_string()).collect();
            points.sort();
            points
        };
        let continued = create("p/l/continued", sources(&[&source], &[])).await;
        assert_eq!(points(&continued).await, ["2"], "{algorithm:?}");
        let related = create("p/l/related", sources(&[], &[&source])).await;
        assert_eq!(points(&related).await, ["1", "2", "3"], "{algorithm:?}");
    }
}

#[tokio::test]
async fn related_study_does_not_move_the_sequence_of_a_quasi_random_search() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let create = async |name, sources| create(&*store, name, DOUBLE, Algorithm::QuasiRandomSearch, sources).await;
    let source = create("p/l/source", SourceStudies::default()).await;
    add(&*store, &source, peak(4)).await;
    let alone = suggested(&*store, &create("p/l/alone", SourceStudies::default()).await, 6).await;
    let related = suggested(&*store, &create("p/l/related", sources(&[], &[&source])).await, 2).await;
    assert_eq!(related, alone[..2]);
    let continued = suggested(&*store, &create("p/l/continued", sources(&[&source], &[])).await, 2).await;
    assert_eq!(continued, alone[4..]);
}

#[tokio::test]
async fn report_states_which_related_studies_the_search_uses() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let gp = || Algorithm::GaussianProcessBandit;
    let good = create(&*store, "p/l/good", DOUBLE, gp(), SourceStudies::default()).await;
    add(&*store, &good, peak(10)).await;
    let bad = create(&*store, "p/l/bad", DOUBLE, gp(), SourceStudies::default()).await;
    add(&*store, &bad, peak(10).map(|(x, value)| (x, value.map(|value| -value)))).await;
    let study = create(&*store, "p/l/study", DOUBLE, gp(), sources(&[], &[&good, &bad])).await;
    add(&*store, &study, peak(3)).await;
    let policy = super::super::super::SearchPolicy::new(Arc::clone(&store), 1);
    let reports = policy.source_reports(&store.study(&study.id).await.unwrap()).await.unwrap();
    let influences: Vec<SourceInfluence> = reports.iter().filter_map(|report| report.influence).collect();
    let [used, dropped] = &influences[..] else { panic!("{reports:?}") };
    assert_eq!((used.trials, used.rank_correlation), (10, Some(1.0)));
    assert!(used.share > 0.5 && used.share < 1.0, "{used:?}");
    assert_eq!((dropped.rank_correlation, dropped.share), (Some(-1.0), 0.0));
    // An algorithm without models of other studies uses none.
    let random = create(&*store, "p/l/random", DOUBLE, Algorithm::RandomSearch, sources(&[], &[&good])).await;
    let reports = policy.source_reports(&random).await.unwrap();
    assert_eq!(reports.iter().map(|report| report.influence).collect::<Vec<_>>(), [None]);
}

fn spec(algorithm: Algorithm, metrics: &[&str]) -> StudySpec {
    StudySpec {
        problem: problem(DOUBLE, metrics),
        initial_points: Vec::new(),
        algorithm,
        stopping_rule: None,
        stopping_axis: CurveAxis::Step,
        study_stopping: StudyStopping::default(),
        final_measurement: FinalMeasurement::Last,
        max_trials: None,
        trial_lease: None,
    }
}

#[tokio::test]
async fn description_states_how_much_of_each_source_study_is_used() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let wide = ParameterKind::Double { min: 0.0, max: 2.0, scale: ScaleType::UnitLinear };
    let create =
        async |name| create(&*store, name, wide.clone(), Algorithm::RandomSearch, SourceStudies::default()).await;
    let (one, two) = (create("p/l/one").await, create("p/l/two").await);
    let outside = || (ParameterValue::Double(1.5), Some(2.0));
    add(&*store, &one, peak(4).chain([outside()])).await;
    add(&*store, &two, peak(3).chain([outside(), (ParameterValue::Double(0.5), None)])).await;
    let empty = create("p/l/empty").await;
    let described = async |spec: &StudySpec, sources: SourceStudies| {
        let SourceDescriptions { continued, related } = describe_sources(&*store, spec, &sources).await.unwrap();
        [continued, related].map(|source| source.map(|SourceDescription { text, is_complete }| (text, is_complete)))
    };
    let some = |text: &str, is_complete| Some((text.to_owned(), is_complete));
    let gp = spec(Algorithm::GaussianProcessBandit, &["accuracy"]);
    assert_eq!(described(&gp, sources(&[], &[&empty])).await, [None, None]);
    let continued = "4 of 5 earlier trials count as results of this search: 1 have a value of \"x\" that is out of range; \
                     1 outside the search space still inform it as trials of another one";
    assert_eq!(described(&gp, sources(&[&one], &[])).await, [some(continued, false), None]);
    // A failure counts as a result of a study that continues, and as none of a related one.
    let continued = "8 of 10 earlier trials count as results of this search (one: 4 of 5, two: 4 of 5): 2 have a value of \
                     \"x\" that is out of range; 2 outside the search space still inform it as trials of another one";
    assert_eq!(described(&gp, sources(&[&one, &two], &[])).await, [some(continued, false), None]);
    let related = "one: 5 of 5 trials inform this search as those of another study";
    assert_eq!(described(&gp, sources(&[], &[&one])).await, [None, some(related, true)]);
    let both = "one: 5 of 5 trials inform this search as those of another study; two: 4 of 5 trials inform this search as \
                those of another study: 1 have failed";
    assert_eq!(described(&gp, sources(&[], &[&one, &two])).await, [None, some(both, false)]);
    let other = spec(Algorithm::GaussianProcessBandit, &["loss"]);
    let without = "one: 0 of 5 trials inform this search as those of another study: 5 have no result of \"loss\"";
    assert_eq!(described(&other, sources(&[], &[&one])).await, [None, some(without, false)]);
    let random = spec(Algorithm::RandomSearch, &["accuracy"]);
    let unused = "one: 0 of 5 trials are used: RANDOM_SEARCH does not learn from other studies";
    assert_eq!(described(&random, sources(&[], &[&one])).await, [None, some(unused, false)]);
    let several = spec(Algorithm::Automatic, &["accuracy", "loss"]);
    let unused = "one: 0 of 5 trials are used: a search with 2 metrics does not learn from other studies";
    assert_eq!(described(&several, sources(&[], &[&one])).await, [None, some(unused, false)]);
}
