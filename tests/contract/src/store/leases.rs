//! Open trials and the leases of their owners.

use super::trials::with_study;
use super::{Medium, assert_refused, reopen, samples};
use tunesmith_domain::{Completion, NewTrial, TrialChange, TrialId, TrialStart, TrialState};
use tunesmith_store::StoreError;

pub(super) async fn batches_of_trials_are_atomic(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    let bad = Completion::Succeeded { final_measurement: samples::measurement(1, f64::NAN) };
    let bad = NewTrial { start: TrialStart::Completed(bad.into()), ..samples::new_trial(2) };
    let refused = store.create_trials(&study, vec![samples::new_trial(1), bad]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let gap = store.create_trials(&study, vec![samples::new_trial(1), samples::new_trial(3)]).await;
    assert!(matches!(gap, Err(StoreError::TrialIdTaken { next: TrialId(2), .. })), "{gap:?}");
    let store = reopen(medium, store).await;
    assert!(store.trials(&study, None, 9).await.unwrap().is_empty());
    assert_eq!(store.study(&study).await.unwrap().next_trial_id, TrialId(1));

    let created = store.create_trials(&study, (1..=3).map(samples::new_trial).collect()).await.unwrap();
    assert_eq!(created.iter().map(|trial| trial.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(reopen(medium, store).await.trials(&study, None, 9).await.unwrap(), created);
}

pub(super) async fn open_trials_are_those_without_a_result(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    store.create_trials(&study, (1..=6).map(samples::new_trial).collect()).await.unwrap();
    for id in 1..=6 {
        store.change_trial(&study, TrialId(id), samples::begin(1)).await.unwrap();
    }
    store.change_trial(&study, TrialId(1), samples::succeed(1, 0.5)).await.unwrap();
    store.change_trial(&study, TrialId(3), samples::fail(1, "no")).await.unwrap();
    store.change_trial(&study, TrialId(4), TrialChange::Stop { predicted_final: None }).await.unwrap();
    store.change_trial(&study, TrialId(5), TrialChange::Delete { at: samples::at(3) }).await.unwrap();
    let store = reopen(medium, store).await;
    let open = async |after: Option<u64>, limit| {
        let trials = store.open_trials(&study, after.map(TrialId), limit).await.unwrap();
        trials.iter().map(|trial| trial.id.0).collect::<Vec<_>>()
    };
    assert_eq!(open(None, 9).await, [2, 4, 6]);
    assert_eq!(open(None, 2).await, [2, 4]);
    assert_eq!(open(Some(4), 2).await, [6]);
    assert_eq!(store.trial(&study, TrialId(5)).await.unwrap().state, TrialState::Deleted);
    let again = store.change_trial(&study, TrialId(5), TrialChange::Delete { at: samples::at(4) }).await;
    super::assert_not_found(again, &format!("trial 5 of study {study}"));
}

pub(super) async fn leases_end_unless_they_are_renewed(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    // Ten seconds from second 1.
    let new = vec![samples::leased(1, 10), samples::leased(2, 20), samples::new_trial(3)];
    let created = store.create_trials(&study, new).await.unwrap();
    assert_eq!((created[0].attempt, created[0].start_time), (1, Some(samples::at(1))));
    let store = reopen(medium, store).await;
    let overdue = async |at| {
        let overdue = store.overdue_trials(samples::at(at), 9).await.unwrap();
        overdue.into_iter().map(|(_, trial)| trial.id.0).collect::<Vec<_>>()
    };
    assert!(overdue(10).await.is_empty());
    assert_eq!(overdue(12).await, [1]);
    assert_eq!(overdue(22).await, [1, 2], "earliest first");

    let renew = TrialChange::Renew { attempt: 1, at: samples::at(9) };
    store.change_trial(&study, TrialId(1), renew).await.unwrap();
    let report = samples::report(1, vec![samples::measurement(1, 0.5)]);
    let reported = store.change_trial(&study, TrialId(2), report).await.unwrap();
    assert_eq!(reported.lease.unwrap().deadline, samples::at(22));
    assert_eq!(overdue(20).await, [1]);
    // No effect before the deadline.
    let expire = |at| TrialChange::Expire { attempt: 1, at: samples::at(at) };
    assert_eq!(store.change_trial(&study, TrialId(1), expire(18)).await.unwrap().state, TrialState::Active);
    let expired = store.change_trial(&study, TrialId(1), expire(19)).await.unwrap();
    assert_eq!((expired.state, expired.client_id.as_str()), (TrialState::Requested, ""));
    assert_eq!(expired.expired_leases, 1);
    assert!(overdue(20).await.is_empty());
}

pub(super) async fn a_former_owner_is_refused(medium: &impl Medium) {
    let (store, study) = with_study(medium, "s").await;
    store.create_trial(&study, samples::leased(1, 10)).await.unwrap();
    let id = TrialId(1);
    store.change_trial(&study, id, TrialChange::Expire { attempt: 1, at: samples::at(11) }).await.unwrap();
    let late = "the lease of attempt 1 of trial 1 has expired: the trial is offered again";
    let report = || samples::report(1, vec![samples::measurement(1, 0.5)]);
    assert_refused(store.change_trial(&study, id, report()).await, late);
    assert_refused(store.change_trial(&study, id, samples::succeed(1, 0.5)).await, late);

    let assign =
        TrialChange::Assign { client_id: "next".to_owned(), lease: Some(samples::lease(10, 12)), at: samples::at(12) };
    let assigned = store.change_trial(&study, id, assign.clone()).await.unwrap();
    assert_eq!((assigned.attempt, assigned.client_id.as_str()), (2, "next"));
    assert_refused(store.change_trial(&study, id, assign).await, "cannot assign trial 1: it is ACTIVE");
    let late = "trial 1 is at attempt 2 now; the report of attempt 1 is refused";
    assert_refused(store.change_trial(&study, id, report()).await, late);
    assert_refused(store.change_trial(&study, id, samples::succeed(1, 0.5)).await, late);
    let store = reopen(medium, store).await;
    let done = store.change_trial(&study, id, samples::succeed(2, 0.5)).await.unwrap();
    assert_eq!((done.state, done.lease), (TrialState::Succeeded, None));
    // A former owner is refused even with the same result.
    assert_refused(store.change_trial(&study, id, samples::succeed(1, 0.5)).await, late);
    assert!(store.overdue_trials(samples::at(1000), 9).await.unwrap().is_empty());
}
