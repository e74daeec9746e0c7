//! Jobs and studies.

use super::{Place, assert_not_found, assert_refused, reopen, samples};
use crate::StoreError;
use tunesmith_domain::{JobChange, JobId, JobState, StudyChange, StudyState};

pub(super) async fn are_created_once(place: &impl Place) {
    let store = place.open().await;
    let (job, study) = (samples::job("first"), samples::conditional_study("first"));
    assert_not_found(store.job(&job.id).await, "job first");
    assert_not_found(store.study(&study.id).await, "study first");
    store.create_job(job.clone(), Some(study.clone())).await.unwrap();
    let store = reopen(place, store).await;
    assert_eq!(store.job(&job.id).await.unwrap(), job);
    assert_eq!(store.study(&study.id).await.unwrap(), study);

    let again = store.create_job(job.clone(), None).await.unwrap_err();
    assert!(matches!(&again, StoreError::AlreadyExists { resource } if resource == "job first"), "{again:?}");
    // All or nothing: if the study exists, the job is not created either, and vice versa.
    let taken = store.create_job(samples::job("second"), Some(study.clone())).await.unwrap_err();
    assert!(matches!(&taken, StoreError::AlreadyExists { resource } if resource == "study first"), "{taken:?}");
    assert_not_found(store.job(&"second".parse().unwrap()).await, "job second");
    store.create_job(job.clone(), Some(samples::study("third"))).await.unwrap_err();
    assert_not_found(store.study(&"third".parse().unwrap()).await, "study third");
    let store = reopen(place, store).await;
    assert_not_found(store.job(&"second".parse().unwrap()).await, "job second");
    assert_eq!(store.study(&study.id).await.unwrap(), study);
}

pub(super) async fn are_listed_in_order_by_pages(place: &impl Place) {
    let store = place.open().await;
    assert!(store.jobs(None, 10).await.unwrap().is_empty());
    for id in ["b", "a_1", "c", "a", "B"] {
        store.create_job(samples::job(id), None).await.unwrap();
    }
    let store = reopen(place, store).await;
    let ids = async |after: Option<&str>, limit| {
        let after: Option<JobId> = after.map(|id| id.parse().unwrap());
        let jobs = store.jobs(after.as_ref(), limit).await.unwrap();
        jobs.iter().map(|job| job.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, 100).await, ["B", "a", "a_1", "b", "c"]);
    assert_eq!(ids(None, 2).await, ["B", "a"]);
    assert_eq!(ids(Some("a"), 2).await, ["a_1", "b"]);
    assert_eq!(ids(Some("a_0"), 1).await, ["a_1"], "the job after which a page starts need not exist");
    assert!(ids(Some("c"), usize::MAX).await.is_empty());
    assert!(ids(None, 0).await.is_empty());
}

pub(super) async fn allow_legal_changes_only(place: &impl Place) {
    let store = place.open().await;
    let change =
        |state, message: &str| JobChange::Become { state, error_message: message.to_owned(), at: samples::at(5) };
    let id: JobId = "job".parse().unwrap();
    assert_not_found(store.change_job(&id, change(JobState::Running, "")).await, "job job");
    store.create_job(samples::job("job"), None).await.unwrap();
    let running = store.change_job(&id, change(JobState::Running, "")).await.unwrap();
    assert_eq!((running.state, running.start_time, running.revision), (JobState::Running, Some(samples::at(5)), 1));
    assert_eq!(store.change_job(&id, change(JobState::Running, "")).await.unwrap(), running, "no effect");
    let failed = store.change_job(&id, change(JobState::Failed, "why")).await.unwrap();
    assert_eq!((failed.end_time, failed.error_message.as_str()), (Some(samples::at(5)), "why"));
    let refused = store.change_job(&id, change(JobState::Running, "")).await;
    assert_refused(refused, "cannot run job job: it is FAILED");
    let store = reopen(place, store).await;
    assert_eq!(store.job(&id).await.unwrap(), failed);
}

pub(super) async fn studies_allow_legal_changes_only(place: &impl Place) {
    let store = place.open().await;
    let study = samples::study("study");
    let complete = || StudyChange::Complete { reason: "search space exhausted".to_owned() };
    assert_not_found(store.change_study(&study.id, complete()).await, "study study");
    store.create_job(samples::job("study"), Some(study.clone())).await.unwrap();
    let completed = store.change_study(&study.id, complete()).await.unwrap();
    assert_eq!(completed.state, StudyState::Completed);
    assert_eq!(completed.state_reason, "search space exhausted");
    assert!(completed.revision > study.revision);
    assert_eq!(store.change_study(&study.id, complete()).await.unwrap(), completed, "no effect");
    let refused = store.change_study(&study.id, StudyChange::Deactivate { reason: String::new() }).await;
    assert_refused(refused, "cannot deactivate study study: it is COMPLETED");
    assert_refused(
        store.create_trial(&study.id, samples::new_trial(1)).await,
        "cannot add a trial to study study: it is COMPLETED",
    );
    let store = reopen(place, store).await;
    assert_eq!(store.study(&study.id).await.unwrap(), completed);
}
