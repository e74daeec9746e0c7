//! Many concurrent callers.

use std::sync::Arc;

use futures::future::join_all;

use super::trials::with_study;
use super::{Medium, reopen, samples};
use tunesmith_domain::{StudyId, Trial, TrialId, TrialState};
use tunesmith_store::{Store, StoreError};

const TASKS: usize = 64;

/// Creates the next trial, whatever its current number.
async fn create_next(store: &dyn Store, study: &StudyId) -> Trial {
    let mut next = store.study(study).await.unwrap().next_trial_id;
    loop {
        match store.create_trial(study, samples::new_trial(next.0)).await {
            Ok(trial) => return trial,
            Err(StoreError::TrialIdTaken { next: free, .. }) => {
                assert!(free > next, "trial {next} was refused although it is the next one");
                next = free;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn spawn_all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(task: impl Fn(usize) -> F) -> Vec<T> {
    let tasks: Vec<_> = (0..TASKS).map(|index| tokio::spawn(task(index))).collect();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

pub(super) async fn every_number_is_assigned_once(medium: &impl Medium) {
    const EACH: usize = 3;
    let (store, study) = with_study(medium, "s").await;
    let created = spawn_all(|_| {
        let (store, study) = (Arc::clone(&store), study.clone());
        async move {
            let mut trials = Vec::new();
            for _ in 0..EACH {
                let trial = create_next(&*store, &study).await;
                assert_eq!(store.trial(&study, trial.id).await.unwrap(), trial, "an acknowledged trial can be read");
                trials.push(trial);
            }
            trials
        }
    })
    .await;
    let mut created: Vec<Trial> = created.into_iter().flatten().collect();
    created.sort_by_key(|trial| trial.id);
    let store = reopen(medium, store).await;
    assert_eq!(store.trials(&study, None, usize::MAX).await.unwrap(), created);
    let ids: Vec<u64> = created.iter().map(|trial| trial.id.0).collect();
    assert_eq!(ids, (1..=(TASKS * EACH) as u64).collect::<Vec<_>>());
}

pub(super) async fn one_of_many_completions_is_applied(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let answers = spawn_all(|index| {
        let (store, study) = (Arc::clone(&store), study.clone());
        // Four different results, each reported by a quarter of the tasks.
        async move { store.change_trial(&study, TrialId(1), samples::succeed(0, (index % 4) as f64)).await }
    })
    .await;
    let accepted: Vec<Trial> = answers.into_iter().flatten().collect();
    assert_eq!(accepted.len(), TASKS / 4, "the first result, and the same again");
    let store = reopen(medium, store).await;
    let stored = store.trial(&study, TrialId(1)).await.unwrap();
    assert!(accepted.iter().all(|trial| *trial == stored));
    assert_eq!(store.measurements(&study, TrialId(1), 0, 10).await.unwrap().len(), 1);
}

pub(super) async fn a_refused_change_does_not_affect_its_group(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    for id in 1..=TASKS as u64 {
        store.create_trial(&study, samples::new_trial(id)).await.unwrap();
    }
    let answers = spawn_all(|index| {
        let (store, study) = (Arc::clone(&store), study.clone());
        // Every other task reports for an attempt that does not exist.
        let change = samples::succeed(index as u64 % 2, 0.5);
        async move { store.change_trial(&study, TrialId(index as u64 + 1), change).await }
    })
    .await;
    let store = reopen(medium, store).await;
    for (trial, answer) in store.trials(&study, None, TASKS).await.unwrap().iter().zip(answers) {
        if trial.id.0 % 2 == 1 {
            assert_eq!(answer.unwrap(), *trial);
            assert_eq!(trial.state, TrialState::Succeeded);
        } else {
            assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
            assert_eq!((trial.state, trial.measurement_count), (TrialState::Active, 0));
        }
    }
}

pub(super) async fn revisions_are_read_in_order(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let writers = spawn_all(|_| {
        let (store, study) = (Arc::clone(&store), study.clone());
        async move {
            let id = create_next(&*store, &study).await.id;
            store.change_trial(&study, id, samples::begin(1)).await.unwrap();
            store.change_trial(&study, id, samples::succeed(1, 0.5)).await.unwrap()
        }
    });
    // A concurrent reader that applies the changes in order ends with the stored trials.
    let follower = async {
        let mut known = std::collections::BTreeMap::new();
        let mut revision = 0;
        while known.values().filter(|trial: &&Trial| trial.state.is_final()).count() < TASKS {
            for trial in store.trials_changed_since(&study, revision, 7).await.unwrap() {
                assert!(trial.revision > revision);
                revision = trial.revision;
                known.insert(trial.id, trial);
            }
            tokio::task::yield_now().await;
        }
        known.into_values().collect::<Vec<_>>()
    };
    let (_, followed) = tokio::join!(writers, follower);
    assert_eq!(followed, store.trials(&study, None, usize::MAX).await.unwrap());
}
