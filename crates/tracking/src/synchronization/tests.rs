//! Passes over a study in memory, to a destination that fails on request.

use async_trait::async_trait;
use tunesmith_domain::StudyChange;

use super::*;
use crate::testing::{report, start_trial, store, study_id, succeed};

/// Records what it gets.
#[derive(Default)]
struct Recorder {
    /// Numbers of trials, by call of `put`.
    puts: Vec<Vec<u64>>,
    /// Error of the next call of `put`.
    error: Option<TrackingError>,
    finishes: Vec<Finish>,
    recommended: Option<TrialId>,
}

#[async_trait]
impl Destination for Recorder {
    async fn open(&mut self, _view: &View<'_>) -> Result<(), TrackingError> {
        Ok(())
    }

    async fn put(&mut self, _view: &View<'_>, trials: Vec<Trial>) -> Result<(), TrackingError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.puts.push(trials.iter().map(|trial| trial.id.0).collect());
        Ok(())
    }

    async fn conclude(&mut self, _view: &View<'_>, _results: &Results) -> Result<(), TrackingError> {
        Ok(())
    }

    async fn finish(&mut self, _view: &View<'_>, recommended: Option<TrialId>) -> Result<Finish, TrackingError> {
        self.recommended = recommended;
        Ok(self.finishes.pop().unwrap_or(Finish::Complete))
    }
}

fn refused(code: &str) -> TrackingError {
    let (server, code) = ("http://h".to_owned(), code.to_owned());
    TrackingError::Refused { server, request: "runs/log-batch", status: 404, code, message: String::new() }
}

/// The synchronisation of the study in `store` as it is now.
async fn synchronization(store: &Arc<dyn Store>, recorder: Recorder) -> Synchronization<Recorder> {
    let subject = Subject::of_study(&store.study(&study_id()).await.unwrap());
    let recommend: Recommend = Arc::new(|_, trials| Box::pin(async move { trials.last().map(|trial| trial.id) }));
    Synchronization::new(Arc::clone(store), SubjectSource::Fixed(Box::new(subject)), recorder, recommend, 0)
}

#[tokio::test]
async fn passes_send_changes_once_and_continue_after_an_error() {
    let store: Arc<dyn Store> = Arc::new(store().await);
    start_trial(&*store, 1).await;
    start_trial(&*store, 2).await;
    let mut passes = synchronization(&store, Recorder::default()).await;
    assert!(passes.pass().await.unwrap().has_changes);
    assert_eq!(passes.destination.puts, [[1, 2]]);
    assert!(!passes.pass().await.unwrap().has_changes);
    store.change_trial(&study_id(), TrialId(1), succeed(1, report(1, 1), 5)).await.unwrap();
    passes.destination.error = Some(refused("TEMPORARILY_UNAVAILABLE"));
    assert!(passes.pass().await.is_err());
    let pass = passes.pass().await.unwrap();
    assert_eq!((&passes.destination.puts[1..], pass.is_complete), (&[vec![1]][..], false));
    assert_eq!(pass.study_revision, store.study(&study_id()).await.unwrap().revision);
    // A run that a user has deleted: everything is sent again.
    store.change_trial(&study_id(), TrialId(2), succeed(1, report(1, 1), 6)).await.unwrap();
    passes.destination.error = Some(refused("RESOURCE_DOES_NOT_EXIST"));
    assert!(passes.pass().await.is_err());
    passes.pass().await.unwrap();
    assert_eq!(passes.destination.puts[2..], [[1, 2]]);
}

#[tokio::test]
async fn export_of_an_ended_subject_repairs_what_concurrent_ones_did() {
    let store: Arc<dyn Store> = Arc::new(store().await);
    for trial in [1, 2] {
        start_trial(&*store, trial).await;
        store.change_trial(&study_id(), TrialId(trial), succeed(1, report(1, 1), 5)).await.unwrap();
    }
    store.change_study(&study_id(), StudyChange::Complete { reason: "all".into() }).await.unwrap();
    // Last one first.
    let finishes = vec![Finish::Trials(vec![TrialId(2)]), Finish::Restart];
    let mut passes = synchronization(&store, Recorder { finishes, ..Recorder::default() }).await;
    assert!(passes.pass().await.unwrap().is_complete);
    assert_eq!(passes.destination.puts, [vec![1, 2], vec![1, 2], vec![2]]);
    assert_eq!(passes.destination.recommended, Some(TrialId(2)));
}
