use tunesmith_contract::{CountingStore, samples};
use tunesmith_domain::{Completion, NewTrial, TrialChange, TrialStart};
use tunesmith_store::MemoryStore;

use super::*;

type Counting = Arc<CountingStore<MemoryStore>>;

async fn store() -> (Counting, Arc<dyn Store>, Study) {
    let counting: Counting = Arc::default();
    let study = samples::study("p/l/s");
    counting.create_study(study.clone()).await.unwrap();
    (Arc::clone(&counting), counting, study)
}

/// Adds `count` completed trials, each worse than the previous; returns the last one.
async fn add_trials(store: &dyn Store, count: u64) -> Trial {
    let study = store.study(&samples::study("p/l/s").id).await.unwrap();
    let goal = study.problem.metrics()[0].goal;
    let new = (0..count).map(|index| {
        let id = study.next_trial_id.offset(index);
        let final_measurement = samples::measurement(1, goal.loss(id.0 as f64));
        let start = TrialStart::Completed(Completion::Succeeded { final_measurement }.into());
        NewTrial { id, start, request_key: None, ..samples::new_trial(id.0) }
    });
    store.create_trials(&study.id, new.collect()).await.unwrap().pop().unwrap()
}

/// Waits until the summary of `revision` or later is stored.
async fn stored(store: &dyn Store, study: &StudyId, revision: u64) -> Summary {
    loop {
        if let Some(summary) =
            store.summary(study, SummaryKind::Figures).await.unwrap().and_then(|body| record::decode(&body))
            && summary.revision >= revision
        {
            return summary;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn summary_of_a_study_that_changes_is_up_to_date_without_a_request() {
    let (_, store, study) = store().await;
    let summaries = Summaries::default();
    let mut followed = Vec::new();
    for _ in 1..=2 * FOLLOWED + 7 {
        let trial = add_trials(&*store, 1).await;
        let study = store.study(&study.id).await.unwrap();
        if let Some(refreshed) = summaries.follow(&store, &study, trial.revision) {
            refreshed.await.unwrap();
            followed.push(trial.revision);
        }
    }
    assert_eq!(followed, [FOLLOWED, 2 * FOLLOWED]);
    let known = summaries.0.get_or_insert(&study.id, 0, || panic!("the summary is kept"));
    let known = known.lock().await;
    assert_eq!(known.revision, 2 * FOLLOWED);
    assert_eq!(known.front.0.keys().copied().collect::<Vec<_>>(), [TrialId(1)]);
    assert_eq!(known.trials.ended.succeeded, 2 * FOLLOWED);
}

#[tokio::test]
async fn next_process_reads_only_what_changed_since_the_stored_summary() {
    let (counting, store, study) = store().await;
    let last = add_trials(&*store, STORED + 500).await;
    let study_now = store.study(&study.id).await.unwrap();
    let first = Summaries::default();
    let figures = first.figures(&store, &study_now).await.unwrap();
    assert_eq!(figures.succeeded, STORED + 500);
    assert_eq!(counting.take_listed(), STORED + 500);
    stored(&*store, &study.id, last.revision).await;
    // One read serves both the statistics and the optimal trials.
    assert_eq!(first.optimal(&store, &study_now).await.unwrap(), [TrialId(1)]);
    assert_eq!(counting.take_listed(), 0);

    let second = Summaries::default();
    assert_eq!(second.figures(&store, &study_now).await.unwrap(), figures);
    assert_eq!(second.optimal(&store, &study_now).await.unwrap(), [TrialId(1)]);
    assert_eq!(counting.take_listed(), 0);
    // Each trial is worse than the one before.
    let best = study.problem.metrics()[0].goal.loss(1.0);
    let course = second.best_so_far(&store, &study_now).await.unwrap();
    assert!(course.len() > 20 && course.iter().all(|value| *value == best), "{course:?}");
    assert_eq!(counting.take_listed(), 0);
    add_trials(&*store, 3).await;
    let study_now = store.study(&study.id).await.unwrap();
    assert_eq!(second.figures(&store, &study_now).await.unwrap().succeeded, STORED + 503);
    assert_eq!(counting.take_listed(), 3);
}

#[tokio::test]
async fn deleted_trial_is_subtracted_and_an_optimal_one_is_replaced() {
    let (counting, store, study) = store().await;
    add_trials(&*store, 1200).await;
    let summaries = Summaries::default();
    let now = async || store.study(&study.id).await.unwrap();
    assert_eq!(summaries.optimal(&store, &now().await).await.unwrap(), [TrialId(1)]);
    counting.take_listed();
    let delete = async |id| {
        store.change_trial(&study.id, TrialId(id), TrialChange::Delete { at: samples::at(99) }).await.unwrap();
    };
    delete(1).await;
    assert_eq!(summaries.optimal(&store, &now().await).await.unwrap(), [TrialId(2)]);
    assert_eq!(summaries.figures(&store, &now().await).await.unwrap().succeeded, 1199);
}

#[tokio::test]
async fn summary_of_a_deleted_study_of_the_same_name_or_of_a_later_revision_is_not_used() {
    let (_, store, study) = store().await;
    let last = add_trials(&*store, STORED).await;
    let study_now = store.study(&study.id).await.unwrap();
    Summaries::default().figures(&store, &study_now).await.unwrap();
    let summary = stored(&*store, &study.id, last.revision).await;
    let changed = [
        Summary { create_time: samples::at(12345), ..summary.clone() },
        // The store was restored from a backup.
        Summary { revision: summary.revision + 1, ..summary.clone() },
    ];
    for other in changed {
        let other = Summary { front: Front::default(), ..other };
        store.put_summary(&study.id, SummaryKind::Figures, record::encode(&other)).await.unwrap();
        assert_eq!(Summaries::default().optimal(&store, &study_now).await.unwrap(), [TrialId(1)]);
        stored(&*store, &study.id, summary.revision).await;
    }
    store.put_summary(&study.id, SummaryKind::Figures, b"of another version".to_vec()).await.unwrap();
    assert_eq!(Summaries::default().optimal(&store, &study_now).await.unwrap(), [TrialId(1)]);
}

#[test]
fn stored_form_keeps_every_bit() {
    let study = samples::study("p/l/s");
    let mut summary = Summary { revision: 77, stored: Some(77), ..Summary::new(&study) };
    summary.front.0.insert(TrialId(3), vec![f64::INFINITY, -0.0, 0.1 + 0.2]);
    summary.trend.add(TrialId(3), 0.1 + 0.2);
    summary.trend_of_stopped.add(TrialId(70), -0.0);
    summary.trials.points.extend([0, 1, u64::MAX]);
    for id in (1..500).chain([9000]) {
        summary.trials.counted.insert(TrialId(id));
    }
    summary.trials.ended.range = Some((f64::MIN_POSITIVE, 0.1 + 0.2));
    summary.trials.ended.reasons.insert("exit code 1".to_owned(), 3);
    let body = record::encode(&summary);
    assert_eq!(record::decode(&body), Some(summary));
    for length in 0..body.len() {
        // A missing digest at the end is detectable only by a checksum.
        assert!(record::decode(&body[..length]).is_none_or(|known| known.trials.points.len() < 3), "{length} bytes");
    }
}
