use std::num::NonZeroUsize;
use std::sync::Arc;

use jiff::Timestamp;
use tunesmith_algorithms::insight::InsightError;
use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_contract::samples;
use tunesmith_domain::{Measurement, MetricValue, ReportKey, Study, TrialState};
use tunesmith_store::MemoryStore;
use tunesmith_store::Store;

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
