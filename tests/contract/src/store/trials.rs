//! Trials, with one caller at a time.

use std::sync::Arc;

use super::{Medium, assert_not_found, assert_refused, reopen, samples};
use tunesmith_domain::{
    AttemptLocation, CompletedStart, Completion, FinalPrediction, LossCause, Metadata, MetadataKey, MetadataValue,
    NewNote, NewTrial, ReplicaNode, StudyChange, StudyId, TransitionError, TrialChange, TrialId, TrialStart,
    TrialState,
};
use tunesmith_store::{Store, StoreError};

/// A store with the study `id`.
pub(super) async fn with_study(medium: &impl Medium, id: &str) -> (Arc<dyn Store>, StudyId) {
    let store = medium.open().await;
    store.create_job(samples::job(id), Some(samples::study(id))).await.unwrap();
    (store, id.parse().unwrap())
}

pub(super) async fn are_numbered_without_gaps(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let nowhere = "nowhere".parse().unwrap();
    assert_not_found(store.create_trial(&nowhere, samples::new_trial(1)).await, "study nowhere");
    for wrong in [0, 2, u64::MAX] {
        match store.create_trial(&study, samples::new_trial(wrong)).await {
            Err(StoreError::TrialIdTaken { study: of, next }) => assert_eq!((of, next), (study.clone(), TrialId(1))),
            other => panic!("trial {wrong} is not the next one: {other:?}"),
        }
    }
    let first = store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    assert_eq!((first.state, first.attempt, first.measurement_count), (TrialState::Active, 0, 0));
    assert_eq!(first.parameters, samples::new_trial(1).parameters);
    let store = reopen(medium, store).await;
    let again = store.create_trial(&study, samples::new_trial(1)).await;
    assert!(matches!(again, Err(StoreError::TrialIdTaken { next: TrialId(2), .. })), "{again:?}");
    let second = store.create_trial(&study, samples::new_trial(2)).await.unwrap();
    assert!(second.revision > first.revision);
    let stored = store.study(&study).await.unwrap();
    assert_eq!((stored.next_trial_id, stored.revision), (TrialId(3), second.revision));
    assert_eq!(store.trial(&study, TrialId(1)).await.unwrap(), first);
    let both = store.trial_of_study(&study, TrialId(1)).await.unwrap();
    assert_eq!(both, (store.study(&study).await.unwrap(), first));
}

pub(super) async fn are_listed_in_order_by_pages(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    assert!(store.trials(&study, None, 10).await.unwrap().is_empty());
    // More than 256, so that an order by bytes or by text would be detected.
    for id in 1..=300 {
        store.create_trial(&study, samples::new_trial(id)).await.unwrap();
    }
    let store = reopen(medium, store).await;
    let ids = async |after: Option<u64>, limit| {
        let trials = store.trials(&study, after.map(TrialId), limit).await.unwrap();
        trials.iter().map(|trial| trial.id.0).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, usize::MAX).await, (1..=300).collect::<Vec<_>>());
    assert_eq!(ids(Some(254), 4).await, [255, 256, 257, 258]);
    assert_eq!(ids(Some(299), 4).await, [300]);
    for end in [300, 301, u64::MAX] {
        assert!(ids(Some(end), 4).await.is_empty());
    }
    assert!(ids(None, 0).await.is_empty());
    assert_not_found(store.trials(&"other".parse().unwrap(), None, 1).await, "study other");
}

pub(super) async fn are_created_with_their_curves(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let curve = vec![samples::measurement(1, 0.5), samples::measurement(2, f64::NAN), samples::measurement(4, 0.25)];
    let start = |completion, stopped_early| {
        TrialStart::Completed(CompletedStart { completion, measurements: curve.clone(), stopped_early })
    };
    let result = samples::measurement(4, 0.25);
    let succeeded = Completion::Succeeded { final_measurement: result.clone() };
    let stopped = Completion::Stopped { reason: "stopped".to_owned() };
    let new = [(succeeded.clone(), false), (succeeded, true), (stopped, true)].into_iter().zip(1..);
    let new = new.map(|((completion, stopped_early), id)| NewTrial {
        start: start(completion, stopped_early),
        ..samples::new_trial(id)
    });
    store.create_trials(&study, new.collect()).await.unwrap();
    let store = reopen(medium, store).await;
    for id in 1..=3 {
        let trial = store.trial(&study, TrialId(id)).await.unwrap();
        assert_eq!((trial.stopped_early, trial.measurement_count), (id > 1, 3));
        let expected = if id < 3 { TrialState::Succeeded } else { TrialState::Infeasible };
        assert_eq!((trial.state, trial.final_measurement.is_some()), (expected, id < 3));
        let stored = store.measurements(&study, TrialId(id), 0, 10).await.unwrap();
        assert_eq!(format!("{stored:?}"), format!("{curve:?}"));
    }
    let backwards = CompletedStart {
        completion: Completion::Succeeded { final_measurement: result },
        measurements: vec![samples::measurement(-1, 0.5)],
        stopped_early: false,
    };
    let refused = NewTrial { start: TrialStart::Completed(backwards), ..samples::new_trial(4) };
    assert_refused(
        store.create_trial(&study, refused).await,
        "measurement 0 of trial 4 is refused: step -1 is negative",
    );
}

pub(super) async fn pass_through_all_states(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    assert_not_found(store.trial(&study, id).await, "trial 1 of study s");
    assert_not_found(
        store.change_trial(&study, id, TrialChange::Stop { predicted_final: None }).await,
        "trial 1 of study s",
    );
    assert_not_found(store.measurements(&study, id, 0, 1).await, "trial 1 of study s");
    assert_not_found(store.trial(&"t".parse().unwrap(), id).await, "study t");
    assert_not_found(store.trial_of_study(&study, id).await, "trial 1 of study s");
    assert_not_found(store.trial_of_study(&"t".parse().unwrap(), id).await, "study t");
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let started = store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    assert_eq!((started.attempt, started.start_time), (1, Some(samples::at(2))));
    let reported =
        store.change_trial(&study, id, samples::report(1, vec![samples::measurement(1, 0.5)])).await.unwrap();
    assert_eq!(reported.measurement_count, 1);
    let predicted_final = Some(FinalPrediction { value: 0.25, deviation: 0.125 });
    let stopping = store.change_trial(&study, id, TrialChange::Stop { predicted_final }).await.unwrap();
    assert_eq!((stopping.state, stopping.predicted_final), (TrialState::Stopping, predicted_final));
    let later = TrialChange::Stop { predicted_final: None };
    assert_eq!(store.change_trial(&study, id, later).await.unwrap(), stopping, "the first stop counts");
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap(), stopping);
    let done = store.change_trial(&study, id, samples::succeed(1, 0.75)).await.unwrap();
    assert_eq!((done.state, done.stopped_early, done.measurement_count), (TrialState::Succeeded, true, 2));
    assert_eq!(done.predicted_final, predicted_final);
    assert_eq!(done.final_measurement, Some(samples::measurement(100, 0.75)));
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap(), done);
    assert_eq!(
        store.measurements(&study, id, 0, 10).await.unwrap(),
        [samples::measurement(1, 0.5), samples::measurement(100, 0.75)]
    );
    store.create_trial(&study, samples::new_trial(2)).await.unwrap();
    let infeasible = store.change_trial(&study, TrialId(2), samples::fail(0, "no metric")).await.unwrap();
    assert_eq!(infeasible.infeasible_reason.as_deref(), Some("no metric"));
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, TrialId(2)).await.unwrap(), infeasible);
}

pub(super) async fn stopped_trials_go_on(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let (stopped, whole) = (TrialId(1), TrialId(2));
    for id in [stopped, whole] {
        store.create_trial(&study, samples::new_trial(id.0)).await.unwrap();
        store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    }
    let predicted_final = Some(FinalPrediction { value: 0.25, deviation: 0.125 });
    store.change_trial(&study, stopped, TrialChange::Stop { predicted_final }).await.unwrap();
    let active = store.change_trial(&study, stopped, TrialChange::Continue).await.unwrap();
    assert_eq!(active.state, TrialState::Stopping, "it has no result yet");
    for id in [stopped, whole] {
        store.change_trial(&study, id, samples::succeed(1, 0.75)).await.unwrap();
    }
    let ended = store.change_trial(&study, whole, TrialChange::Continue).await.unwrap();
    assert_eq!(ended.state, TrialState::Succeeded, "it ran to its end");

    let goes_on = store.change_trial(&study, stopped, TrialChange::Continue).await.unwrap();
    assert_eq!((goes_on.state, goes_on.stopped_early, goes_on.predicted_final), (TrialState::Active, false, None));
    assert_eq!((&goes_on.final_measurement, goes_on.end_time, goes_on.start_time), (&None, None, None));
    assert_eq!((goes_on.attempt, goes_on.measurement_count), (1, 1), "its reports stay");
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, stopped).await.unwrap(), goes_on);
    assert_eq!(store.change_trial(&study, stopped, TrialChange::Continue).await.unwrap(), goes_on, "no effect twice");
    store.change_trial(&study, stopped, samples::begin(2)).await.unwrap();
    let done = store.change_trial(&study, stopped, samples::succeed(2, 0.5)).await.unwrap();
    assert_eq!((done.state, done.stopped_early, done.measurement_count), (TrialState::Succeeded, false, 2));
}

pub(super) async fn metadata_is_kept_in_every_state(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let done = store.change_trial(&study, id, samples::succeed(0, 0.5)).await.unwrap();
    let added = store.change_trial(&study, id, TrialChange::AddMetadata(samples::metadata("k"))).await.unwrap();
    assert_eq!((&added.metadata, added.revision), (&samples::metadata("k"), done.revision + 1));
    store.change_study(&study, StudyChange::Complete { reason: "x".to_owned() }).await.unwrap();
    let changed = store.change_study(&study, StudyChange::AddMetadata(samples::metadata("k"))).await.unwrap();
    // Beside those with which the study was created.
    assert_eq!(changed.metadata.iter().count(), 4);
    let large = "x".repeat(Metadata::MAX_BYTES);
    let key = MetadataKey { namespace: String::new(), key: "large".to_owned() };
    let too_much: Metadata = [(key, MetadataValue::Text(large))].into_iter().collect();
    let refused = store.change_trial(&study, id, TrialChange::AddMetadata(too_much.clone())).await;
    assert!(matches!(refused, Err(StoreError::Refused(TransitionError::TooMuchMetadata { .. }))), "{refused:?}");
    let refused = store.change_study(&study, StudyChange::AddMetadata(too_much)).await;
    assert!(matches!(refused, Err(StoreError::Refused(TransitionError::TooMuchMetadata { .. }))), "{refused:?}");
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap(), added);
    assert_eq!(store.study(&study).await.unwrap(), changed);
}

pub(super) async fn a_note_is_replaced_only_if_it_is_the_one_that_was_read(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let done = store.change_trial(&study, id, samples::succeed(0, 0.5)).await.unwrap();
    let note = |text: &str, author: Option<&str>, expected| TrialChange::SetNote {
        note: NewNote { text: text.to_owned(), author: author.map(str::to_owned), expected },
        at: samples::at(7),
    };
    let first = store.change_trial(&study, id, note("a\nb", Some("user:a"), Some(0))).await.unwrap();
    assert_eq!((first.note().unwrap().text.as_str(), first.revision), ("a\nb", done.revision + 1));
    assert_eq!((first.note().unwrap().author.as_deref(), first.note_version()), (Some("user:a"), 1));
    // A retry has no effect, whatever its author has read.
    assert_eq!(store.change_trial(&study, id, note("a\nb", Some("user:b"), Some(0))).await.unwrap(), first);
    let refused = store.change_trial(&study, id, note("c", None, Some(0))).await;
    assert!(matches!(refused, Err(StoreError::Refused(TransitionError::Outdated { .. }))), "{refused:?}");
    let second = store.change_trial(&study, id, note("c", None, Some(1))).await.unwrap();
    assert_eq!((second.note().unwrap().author.as_deref(), second.note_version()), (None, 2));
    let removed = store.change_trial(&study, id, note("", Some("user:b"), None)).await.unwrap();
    assert_eq!((removed.note(), removed.note_version()), (None, 3));
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap(), removed);
}

pub(super) async fn a_repeated_report_is_applied_once(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    let created = store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    assert_eq!(created.has_recorded(&samples::request_key("create-1", 1)), Ok(true));
    assert_eq!(created.fallback_reason.as_deref(), Some("the matrix is singular"));
    assert_eq!(created.fixed_parameters, ["kind"]);
    store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    let report = |step, key: &str| TrialChange::Report {
        attempt: 1,
        measurements: vec![samples::measurement(step, 0.5)],
        at: samples::at(2),
        request_key: Some(samples::request_key(key, step.cast_unsigned())),
    };
    store.change_trial(&study, id, report(1, "a")).await.unwrap();
    let store = reopen(medium, store).await;
    let again = store.change_trial(&study, id, report(1, "a")).await.unwrap();
    assert_eq!(again.measurement_count, 1);
    let reused = "the idempotency key a was used for another request to trial 1: use a new key for each request";
    assert_refused(store.change_trial(&study, id, report(2, "a")).await, reused);
    let other = store.change_trial(&study, id, report(2, "b")).await.unwrap();
    assert_eq!((other.measurement_count, other.revision), (2, again.revision + 1));
    // Also after the trial has its result, since the answer to the first request may be late.
    store.change_trial(&study, id, samples::succeed(1, 0.75)).await.unwrap();
    assert_eq!(store.change_trial(&study, id, report(2, "b")).await.unwrap().measurement_count, 3);
    for step in 3..30 {
        let late = store.change_trial(&study, id, report(step, &step.to_string())).await;
        assert_refused(late, "cannot add a measurement to trial 1: it is SUCCEEDED");
    }
}

pub(super) async fn refuse_illegal_changes(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    let before = store.change_trial(&study, id, samples::begin(2)).await.unwrap();
    assert_eq!((before.attempt, before.lost_attempts), (2, 1));
    let fenced = "trial 1 is at attempt 2 now; the report of attempt 1 is refused";
    let late = samples::report(1, vec![samples::measurement(1, 0.5)]);
    assert_refused(store.change_trial(&study, id, late).await, fenced);
    assert_refused(store.change_trial(&study, id, samples::succeed(1, 0.5)).await, fenced);
    assert_refused(
        store.change_trial(&study, id, samples::begin(2)).await,
        "trial 1 is at attempt 2 now; the report of attempt 2 is refused",
    );
    // The second measurement is not valid, so the first is not added either.
    let half_bad = samples::report(2, vec![samples::measurement(1, 0.5), samples::measurement(-1, 0.5)]);
    assert_refused(
        store.change_trial(&study, id, half_bad).await,
        "measurement 1 of trial 1 is refused: step -1 is negative",
    );
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap(), before);
    assert!(store.measurements(&study, id, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.study(&study).await.unwrap().revision, before.revision, "a refused change leaves the revision");
}

pub(super) async fn count_preemptions_apart(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let losses = [None, Some(LossCause::Preemption), Some(LossCause::Failure), Some(LossCause::Preemption)];
    for ((attempt, loss), second) in (1..).zip(losses).zip([2, 12, 42, 43]) {
        let begin = TrialChange::BeginAttempt { attempt, previous_loss: loss, at: samples::at(second) };
        store.change_trial(&study, id, begin).await.unwrap();
    }
    let store = reopen(medium, store).await;
    let trial = store.trial(&study, id).await.unwrap();
    assert_eq!((trial.attempt, trial.lost_attempts, trial.preempted_attempts), (4, 1, 2));
    assert_eq!((trial.start_time, trial.attempt_start_time), (Some(samples::at(2)), Some(samples::at(43))));
    assert_eq!(trial.lost_time.as_secs(), 10 + 30 + 1);
    store.change_trial(&study, id, samples::fail(4, "failed")).await.unwrap();
    let trial = store.change_trial(&study, id, TrialChange::Retry).await.unwrap();
    assert_eq!((trial.lost_attempts, trial.preempted_attempts, trial.lost_time.as_secs()), (0, 0, 0));
}

pub(super) async fn keep_the_nodes_of_attempts(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    let node = |task: Option<&str>, node: &str| ReplicaNode { task: task.map(str::to_owned), node: node.to_owned() };
    let first = AttemptLocation { attempt: 1, executor: None, nodes: vec![node(None, "here")] };
    let nodes = vec![node(Some("master-0"), "n1"), node(Some("worker-0"), "n2")];
    let second = AttemptLocation { attempt: 2, executor: Some("gpu".to_owned()), nodes };
    let part = AttemptLocation { nodes: second.nodes[..1].to_vec(), ..second.clone() };
    store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    store.change_trial(&study, id, TrialChange::Locate(first.clone())).await.unwrap();
    store.change_trial(&study, id, samples::begin(2)).await.unwrap();
    let late = store.change_trial(&study, id, TrialChange::Locate(first.clone())).await;
    assert_refused(late, "trial 1 is at attempt 2 now; the report of attempt 1 is refused");
    store.change_trial(&study, id, TrialChange::Locate(part)).await.unwrap();
    store.change_trial(&study, id, TrialChange::Locate(second.clone())).await.unwrap();
    store.change_trial(&study, id, samples::succeed(2, 0.5)).await.unwrap();
    let store = reopen(medium, store).await;
    assert_eq!(store.trial(&study, id).await.unwrap().places, [first, second]);
}

pub(super) async fn add_deliveries_once(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    let deliver = |attempt, from, to, steps: &[i64]| TrialChange::Deliver {
        attempt,
        from,
        to,
        measurements: steps.iter().map(|step| samples::measurement(*step, 0.5)).collect(),
        at: samples::at(2),
    };
    store.change_trial(&study, id, deliver(1, 0, 2, &[1, 2])).await.unwrap();
    let store = reopen(medium, store).await;
    let again = "the next measurement of trial 1 has the number 2; the delivery starts at 0";
    assert_refused(store.change_trial(&study, id, deliver(1, 0, 2, &[1, 2])).await, again);
    let gap = "the next measurement of trial 1 has the number 2; the delivery starts at 3";
    assert_refused(store.change_trial(&study, id, deliver(1, 3, 4, &[4])).await, gap);
    // One of the two was known.
    let trial = store.change_trial(&study, id, deliver(1, 2, 4, &[4])).await.unwrap();
    assert_eq!((trial.delivered, trial.measurement_count), (4, 3));
    let next = store.change_trial(&study, id, samples::begin(2)).await.unwrap();
    assert_eq!(next.delivered, 0);
    let fenced = "trial 1 is at attempt 2 now; the report of attempt 1 is refused";
    assert_refused(store.change_trial(&study, id, deliver(1, 4, 5, &[5])).await, fenced);
    let steps: Vec<i64> = store.measurements(&study, id, 0, 10).await.unwrap().iter().map(|m| m.step).collect();
    assert_eq!(steps, [1, 2, 4]);
}

pub(super) async fn are_completed_once(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let id = TrialId(1);
    store.create_trial(&study, samples::new_trial(1)).await.unwrap();
    store.change_trial(&study, id, samples::begin(1)).await.unwrap();
    let done = store.change_trial(&study, id, samples::succeed(1, 0.5)).await.unwrap();
    let store = reopen(medium, store).await;
    assert_eq!(store.change_trial(&study, id, samples::succeed(1, 0.5)).await.unwrap(), done);
    assert_refused(
        store.change_trial(&study, id, samples::succeed(1, 0.6)).await,
        "trial 1 is already completed with accuracy=0.5 at step 100, loss=-0.5 at step 100",
    );
    assert_eq!(
        store.change_trial(&study, id, TrialChange::Stop { predicted_final: None }).await.unwrap(),
        done,
        "no effect"
    );
    assert_eq!(store.study(&study).await.unwrap().revision, done.revision);
    assert_eq!(store.measurements(&study, id, 0, 10).await.unwrap().len(), 1);
}

pub(super) async fn are_listed_by_revision(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    for id in 1..=4 {
        store.create_trial(&study, samples::new_trial(id)).await.unwrap();
    }
    let seen = store.study(&study).await.unwrap().revision;
    assert!(store.trials_changed_since(&study, seen, 10).await.unwrap().is_empty());
    store.change_trial(&study, TrialId(3), samples::begin(1)).await.unwrap();
    store.change_trial(&study, TrialId(1), samples::begin(1)).await.unwrap();
    let last = store.change_trial(&study, TrialId(3), samples::succeed(1, 0.5)).await.unwrap();
    let store = reopen(medium, store).await;
    let changed = async |revision, limit| {
        let trials = store.trials_changed_since(&study, revision, limit).await.unwrap();
        assert!(trials.is_sorted_by_key(|trial| trial.revision));
        trials.iter().map(|trial| trial.id.0).collect::<Vec<_>>()
    };
    assert_eq!(changed(seen, 10).await, [1, 3], "each once, at its latest change");
    assert_eq!(changed(0, 10).await, [2, 4, 1, 3]);
    assert_eq!(changed(0, 3).await, [2, 4, 1]);
    assert_eq!(store.trials_changed_since(&study, last.revision - 1, 9).await.unwrap(), [last]);
    assert!(changed(u64::MAX, 10).await.is_empty());
    assert_not_found(store.trials_changed_since(&"t".parse().unwrap(), 0, 1).await, "study t");
}

pub(super) async fn of_two_studies_are_separate(medium: &impl Medium) {
    let (store, short) = with_study(medium, "s").await;
    store.create_job(samples::job("s_1"), Some(samples::study("s_1"))).await.unwrap();
    let long: StudyId = "s_1".parse().unwrap();
    for id in 1..=2 {
        store.create_trial(&short, samples::new_trial(id)).await.unwrap();
    }
    store.create_trial(&long, samples::new_trial(1)).await.unwrap();
    let report = samples::report(0, vec![samples::measurement(1, 0.5)]);
    store.change_trial(&long, TrialId(1), report).await.unwrap();
    let store = reopen(medium, store).await;
    assert_eq!(store.trials(&short, None, 10).await.unwrap().len(), 2);
    assert_eq!(store.trials(&long, None, 10).await.unwrap().len(), 1);
    assert_eq!(store.trials_changed_since(&short, 0, 10).await.unwrap().len(), 2);
    assert!(store.measurements(&short, TrialId(1), 0, 10).await.unwrap().is_empty());
    assert_eq!(store.measurements(&long, TrialId(1), 0, 10).await.unwrap().len(), 1);
}
