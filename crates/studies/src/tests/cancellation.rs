//! Suggestions that end without points: cancelled, deleted with their study, or too long.

use std::num::NonZeroUsize;
use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Goal, MetricSpec, ParameterValue, ProblemStatement};

use super::{key, request, study};
use crate::clock::ManualClock;
use crate::*;
use tunesmith_domain::{Measurement, MetricValue, NewTrial, StudyFields, TrialStart};
use tunesmith_store::MemoryStore;

const METRICS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TRIALS: u64 = 40;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Studies with the suggestion time limit `max_time`, and a study of six metrics with some results.
async fn studies(max_time: Duration) -> (Arc<Studies>, StudyId) {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let policy = Arc::new(SearchPolicy::new(store.clone(), 2).with_max_time(max_time));
    let studies = Arc::new(Studies::new(store.clone(), policy, clock));
    let space = study("p/l/s").problem.search_space().clone();
    let metrics = METRICS.map(|name| MetricSpec { name: name.to_owned(), goal: Goal::Minimize });
    let problem = ProblemStatement::new(space, metrics.to_vec()).unwrap();
    let study = Study::restore(StudyFields::new("p/l/long".parse().unwrap(), problem, Timestamp::UNIX_EPOCH));
    studies.create_study(study.clone()).await.unwrap();
    for number in 1..=TRIALS {
        let x = number as f64 / (TRIALS + 1) as f64;
        let new = NewTrial {
            id: TrialId(number),
            parameters: [("x".to_owned(), ParameterValue::Double(x))].into(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: "before".to_owned(),
            start: TrialStart::Started { lease: None },
            create_time: Timestamp::UNIX_EPOCH,
            request_key: None,
        };
        let trial = store.create_trials(&study.id, vec![new]).await.unwrap().remove(0);
        let value = |place: usize| (x - place as f64 / 6.0).powi(2);
        let values = METRICS.iter().enumerate();
        let metrics = values.map(|(place, name)| MetricValue { metric: (*name).to_owned(), value: value(place) });
        let measurement = Measurement { metrics: metrics.collect(), ..super::loss(1, 1.0, 0.0) };
        studies.complete(&key(&study.id, &trial), ReportedOutcome::Measured(measurement)).await.unwrap();
    }
    (studies, study.id.clone())
}

/// A request whose suggestions would take hours.
fn endless(client: &str) -> SuggestionRequest {
    SuggestionRequest { count: NonZeroUsize::new(1_000_000).unwrap(), ..request(client) }
}

/// Starts endless suggestions for `client` in the background.
async fn start(studies: &Arc<Studies>, study: &StudyId, client: &str) -> SuggestionOperation {
    let operation =
        SuggestionOperation { study: study.clone(), request: endless(client), start_time: Timestamp::UNIX_EPOCH };
    let progress = studies.start_suggestion(&operation, ()).await.unwrap();
    assert!(matches!(progress, SuggestionProgress::Running), "{progress:?}");
    operation
}

/// Waits for the end of `operation`, and returns its error.
async fn failure(studies: &Studies, operation: &SuggestionOperation) -> String {
    let mut progress = studies.operations.of(operation).unwrap();
    let ended = progress.wait_for(|progress| !matches!(progress, SuggestionProgress::Running)).await.unwrap();
    match &*ended {
        SuggestionProgress::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_suggestions_end_whether_they_compute_or_wait() {
    let (studies, id) = studies(DAY).await;
    let computing = start(&studies, &id, "first").await;
    let waiting = start(&studies, &id, "second").await;
    studies.cancel_suggestion(&waiting);
    assert_eq!(failure(&studies, &waiting).await, "study p/l/long: the suggestion was cancelled");
    assert!(matches!(studies.suggestion_progress(&computing).await, Ok(Some(SuggestionProgress::Running))));
    studies.cancel_suggestion(&computing);
    assert_eq!(failure(&studies, &computing).await, "study p/l/long: the suggestion was cancelled");
    // Nothing was reserved, and the study is free.
    let next = studies.suggest(&id, &request("third")).await.unwrap().trials;
    assert_eq!(next[0].id, TrialId(TRIALS + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_of_a_study_ends_its_suggestions() {
    let (studies, id) = studies(DAY).await;
    let computing = start(&studies, &id, "first").await;
    studies.delete_study(&id).await.unwrap();
    assert_eq!(failure(&studies, &computing).await, "study p/l/long: the suggestion was cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn suggestions_have_a_time_limit() {
    let (studies, id) = studies(Duration::ZERO).await;
    let error = studies.suggest(&id, &endless("first")).await.unwrap_err().to_string();
    let expected = "study p/l/long: computing 1000000 suggestions took longer than 0 s; request fewer at once";
    assert_eq!(error, expected);
    assert_eq!(studies.study(&id).await.unwrap().next_trial_id, TrialId(TRIALS + 1));
}
