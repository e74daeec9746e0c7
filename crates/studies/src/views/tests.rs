use std::num::NonZeroUsize;
use std::sync::Arc;

use jiff::Timestamp;
use tunesmith_algorithms::insight::InsightError;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_contract::{CountingStore, samples};
use tunesmith_domain::{
    Completion, Measurement, MetricValue, NewTrial, ReportKey, Study, TrialChange, TrialStart, TrialState,
};
use tunesmith_store::MemoryStore;
use tunesmith_store::{Store, SummaryKind};

use super::{STORED, StudyViews};
use crate::clock::ManualClock;
use crate::search_policy::SearchPolicy;
use crate::{ReportedOutcome, Studies, SuggestionRequest, TrialRef};
use tunesmith_store::pages::PAGE;

fn studies(store: &Arc<MemoryStore>) -> Studies {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    let policy = Arc::new(SearchPolicy::new(Arc::clone(&store), 1));
    Studies::new(store, policy, Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)))
}

/// A measurement of all metrics.
fn measurement(study: &Study, value: f64) -> Measurement {
    let metrics = study.problem.metrics().iter();
    let metrics = metrics.map(|metric| MetricValue { metric: metric.name.clone(), value }).collect();
    Measurement { step: 1, wall_time_secs: 0.0, elapsed_secs: None, key: ReportKey::Http, metrics }
}

/// Points proposed by the study's algorithm.
async fn points(studies: &Studies, study: &Study, count: usize) -> Vec<ParameterValues> {
    let count = NonZeroUsize::new(count).unwrap();
    let request = SuggestionRequest { client_id: "c".to_owned(), count, lease: None };
    let suggested = studies.suggest(&study.id, &request).await.unwrap();
    suggested.trials.iter().map(|trial| trial.parameters.clone()).collect()
}

async fn complete(studies: &Studies, study: &Study, trial: u64, value: f64) {
    let trial = TrialRef { study: study.id.clone(), trial: TrialId(trial), attempt: None };
    studies.complete(&trial, ReportedOutcome::Measured(measurement(study, value))).await.unwrap();
}

async fn values(studies: &Studies, study: &Study) -> Vec<(u64, Option<f64>)> {
    let study = studies.study(&study.id).await.unwrap();
    let columns = studies.columns(&study).await.unwrap();
    assert_eq!(columns.revision(), study.revision);
    columns.live().iter().map(|row| (columns.number(row), columns.metric(0, row))).collect()
}

/// Two servers on one store see each other's changes.
#[tokio::test]
async fn columns_are_current_with_other_writers() {
    let store = Arc::new(MemoryStore::new());
    let (one, other) = (studies(&store), studies(&store));
    let study = one.create_study(samples::study("p/l/s")).await.unwrap();
    assert_eq!(values(&one, &study).await, []);
    points(&one, &study, 3).await;
    assert_eq!(values(&one, &study).await, [(1, None), (2, None), (3, None)]);
    complete(&other, &study, 2, 0.5).await;
    assert_eq!(values(&one, &study).await, [(1, None), (2, Some(0.5)), (3, None)]);
    assert_eq!(values(&other, &study).await, values(&one, &study).await);
    one.delete_trial(&study.id, TrialId(1)).await.unwrap();
    assert_eq!(values(&other, &study).await, [(2, Some(0.5)), (3, None)]);
    // A namesake is a different study.
    one.delete_study(&study.id).await.unwrap();
    let new = Study::restore(tunesmith_domain::StudyFields {
        create_time: Timestamp::from_second(9).unwrap(),
        ..(*samples::study("p/l/s")).clone()
    });
    other.create_study(new.clone()).await.unwrap();
    assert_eq!(values(&other, &new).await, []);
}

#[tokio::test]
async fn first_load_reads_several_pages_and_dropped_columns_are_read_again() {
    let store = Arc::new(MemoryStore::new());
    let studies = studies(&store);
    let study = studies.create_study(samples::study("p/l/s")).await.unwrap();
    let point = points(&studies, &study, 1).await.remove(0);
    let count = 2 * PAGE as u64 + 17;
    for number in 2..=count {
        let result = ReportedOutcome::Measured(measurement(&study, number as f64));
        studies.create_trial(&study.id, point.clone(), Some(result.into()), None).await.unwrap();
    }
    let expected: Vec<(u64, Option<f64>)> =
        (1..=count).map(|number| (number, (number > 1).then_some(number as f64))).collect();
    assert_eq!(values(&studies, &study).await, expected);
    assert_eq!(studies.drop_while(|| true), 0, "the next request needs them");
    assert_eq!(studies.drop_idle(1), 0);
    assert!(studies.drop_while(|| true) > 0);
    assert_eq!(values(&studies, &study).await, expected);
}

#[tokio::test]
async fn next_process_reads_only_what_changed_since_the_columns_were_stored() {
    let counting: Arc<CountingStore<MemoryStore>> = Arc::default();
    let store: Arc<dyn Store> = Arc::<CountingStore<MemoryStore>>::clone(&counting);
    let study = samples::study("p/l/s");
    store.create_study(study.clone()).await.unwrap();
    let add = async |count: u64| {
        let study = store.study(&study.id).await.unwrap();
        let new = (0..count).map(|index| {
            let id = study.next_trial_id.offset(index);
            let final_measurement = samples::measurement(1, id.0 as f64);
            let start = TrialStart::Completed(Completion::Succeeded { final_measurement }.into());
            NewTrial { id, start, request_key: None, ..samples::new_trial(id.0) }
        });
        store.create_trials(&study.id, new.collect()).await.unwrap();
        store.study(&study.id).await.unwrap()
    };
    let values = async |views: &StudyViews, study: &Study| -> Vec<(u64, Option<f64>)> {
        let columns = views.columns(&store, study).await.unwrap();
        columns.live().iter().map(|row| (columns.number(row), columns.metric(0, row))).collect()
    };
    // A small study is not stored.
    let now = add(STORED - 1).await;
    let first = StudyViews::default();
    values(&first, &now).await;
    let now = add(501).await;
    let expected = values(&first, &now).await;
    assert_eq!(counting.take_listed(), STORED + 500);
    while store.summary(&study.id, SummaryKind::Columns).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let second = StudyViews::default();
    assert_eq!(values(&second, &now).await, expected);
    assert_eq!(counting.take_listed(), 0);
    let now = add(3).await;
    assert_eq!(values(&second, &now).await.len(), expected.len() + 3);
    assert_eq!(counting.take_listed(), 3);
    store.change_trial(&study.id, TrialId(7), TrialChange::Delete { at: samples::at(99) }).await.unwrap();
    let now = store.study(&study.id).await.unwrap();
    assert_eq!(values(&StudyViews::default(), &now).await.len(), expected.len() + 2);
    assert_eq!(counting.take_listed(), 4);
    // What cannot be restored is read.
    store.put_summary(&study.id, SummaryKind::Columns, b"of another version".to_vec()).await.unwrap();
    assert_eq!(values(&StudyViews::default(), &now).await.len(), expected.len() + 2);
}

#[tokio::test]
async fn insight_is_kept_until_the_study_changes() {
    let store = Arc::new(MemoryStore::new());
    let studies = studies(&store);
    let study = studies.create_study(samples::study("p/l/s")).await.unwrap();
    let metric = study.problem.metrics()[0].name.clone();
    let choice = || (String::new(), 100);
    let few = studies.insight(&study, 1, &metric, choice(), Vec::new()).await.unwrap();
    assert!(matches!(few, Err(InsightError::TooFewPoints { points: 0, .. })), "{few:?}");
    points(&studies, &study, 30).await;
    for trial in 1..=30 {
        complete(&studies, &study, trial, (trial as f64).sin()).await;
    }
    let study = studies.study(&study.id).await.unwrap();
    let columns = studies.columns(&study).await.unwrap();
    let completed = tunesmith_views::modelled(&columns, &columns.live(), 0, 100);
    assert_eq!(completed.len(), 30);
    assert_eq!(columns.state(0), Some(TrialState::Succeeded));
    let revision = columns.revision();
    let first = studies.insight(&study, revision, &metric, choice(), completed).await.unwrap().unwrap();
    // Cached: the trials are not examined again.
    let second = studies.insight(&study, revision, &metric, choice(), Vec::new()).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let other = studies.insight(&study, revision + 1, &metric, choice(), Vec::new()).await.unwrap();
    assert!(other.is_err());
}
