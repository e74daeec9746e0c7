//! Jobs and studies.

use super::{Medium, assert_not_found, assert_refused, reopen, samples};
use tunesmith_domain::{
    Job, JobChange, JobFields, JobId, JobPlan, JobState, StudyChange, StudyState, TrialId, TrialState,
};
use tunesmith_store::StoreError;

pub(super) async fn are_created_once(medium: &impl Medium) {
    let store = medium.open().await;
    let (job, study) = (samples::job("first"), samples::conditional_study("first"));
    assert_not_found(store.job(&job.id).await, "job first");
    assert_not_found(store.study(&study.id).await, "study first");
    store.create_job(job.clone(), Some(study.clone())).await.unwrap();
    let store = reopen(medium, store).await;
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
    let store = reopen(medium, store).await;
    assert_not_found(store.job(&"second".parse().unwrap()).await, "job second");
    assert_eq!(store.study(&study.id).await.unwrap(), study);
}

pub(super) async fn are_listed_in_order_by_pages(medium: &impl Medium) {
    let store = medium.open().await;
    assert!(store.jobs(None, 10).await.unwrap().is_empty());
    for id in ["b", "a_1", "c", "a", "B"] {
        store.create_job(samples::job(id), None).await.unwrap();
    }
    let store = reopen(medium, store).await;
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

pub(super) async fn allow_legal_changes_only(medium: &impl Medium) {
    let store = medium.open().await;
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
    let store = reopen(medium, store).await;
    assert_eq!(store.job(&id).await.unwrap(), failed);
}

pub(super) async fn studies_allow_legal_changes_only(medium: &impl Medium) {
    let store = medium.open().await;
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
    let store = reopen(medium, store).await;
    assert_eq!(store.study(&study.id).await.unwrap(), completed);
}

pub(super) async fn ended_jobs_are_retried_with_their_failed_trials(medium: &impl Medium) {
    let store = medium.open().await;
    let (job, study) = (samples::job("job"), samples::study("job"));
    store.create_job(job.clone(), Some(study.clone())).await.unwrap();
    for number in 1..=3 {
        store.create_trial(&study.id, samples::new_trial(number)).await.unwrap();
        store.change_trial(&study.id, TrialId(number), samples::begin(1)).await.unwrap();
    }
    store.change_trial(&study.id, TrialId(1), samples::fail(1, "exit code 1")).await.unwrap();
    let good = store.change_trial(&study.id, TrialId(2), samples::succeed(1, 0.5)).await.unwrap();
    let become_state = |state| JobChange::Become { state, error_message: "why".to_owned(), at: samples::at(4) };
    store.change_job(&job.id, become_state(JobState::Running)).await.unwrap();
    store.change_job(&job.id, become_state(JobState::Failed)).await.unwrap();
    store.change_study(&study.id, StudyChange::Complete { reason: "all".to_owned() }).await.unwrap();

    let retried = store.change_job(&job.id, JobChange::Retry { former_attempts: 2, at: samples::at(9) }).await.unwrap();
    assert_eq!((retried.state, retried.error_message.as_str()), (JobState::Queued, ""));
    assert_eq!((retried.start_time, retried.end_time), (None, None));
    assert_eq!((retried.requeue_time, retried.former_attempts), (Some(samples::at(9)), 2));
    let store = reopen(medium, store).await;
    assert_eq!(store.job(&job.id).await.unwrap(), retried);
    assert_eq!(store.study(&study.id).await.unwrap().state, StudyState::Active);
    let trial = store.trial(&study.id, TrialId(1)).await.unwrap();
    assert_eq!((trial.state, &trial.infeasible_reason, trial.attempt), (TrialState::Active, &None, 1));
    assert_eq!((trial.start_time, trial.end_time), (None, None));
    assert_eq!(store.trial(&study.id, TrialId(2)).await.unwrap(), good, "a successful trial is unchanged");
    let open = store.open_trials(&study.id, None, 10).await.unwrap();
    assert_eq!(open.iter().map(|trial| trial.id.0).collect::<Vec<_>>(), [1, 3]);
    let changed = store.trials_changed_since(&study.id, good.revision, 10).await.unwrap();
    assert_eq!(changed.iter().map(|trial| trial.id.0).collect::<Vec<_>>(), [1]);
    let next = store.change_trial(&study.id, TrialId(1), samples::begin(2)).await.unwrap();
    assert_eq!((next.attempt, next.start_time), (2, Some(samples::at(2))));
    let late = store.change_trial(&study.id, TrialId(1), samples::fail(1, "late")).await;
    assert_refused(late, "trial 1 is at attempt 2 now; the report of attempt 1 is refused");
}

pub(super) async fn trials_are_only_added_to_jobs(medium: &impl Medium) {
    let store = medium.open().await;
    let (job, study) = (samples::job("job"), samples::study("job"));
    let (id, current) = (job.id.clone(), 3);
    let plan = Ok(JobPlan { max_trials: current, ..samples::plan() });
    store.create_job(Job::restore(JobFields { plan, ..(*job).clone() }), Some(study.clone())).await.unwrap();
    let extend = |max_trials, revision| JobChange::Extend {
        max_trials: Some(max_trials),
        max_parallel_trials: None,
        training_input: serde_json::json!({"new": max_trials}),
        revision,
        at: samples::at(9),
    };
    store.change_study(&study.id, StudyChange::Complete { reason: "all".to_owned() }).await.unwrap();
    let failed = JobChange::Become { state: JobState::Failed, error_message: "x".to_owned(), at: samples::at(8) };
    store.change_job(&id, failed).await.unwrap();
    let lower = store.change_job(&id, extend(current, None)).await;
    assert_refused(
        lower,
        &format!(
            "the maximum number of trials of job job is {current} and can only be raised; {current} is not above it"
        ),
    );
    assert_refused(
        store.change_job(&id, extend(current + 5, Some(77))).await,
        "job job has been changed since it was read: read it again",
    );
    let extended = store.change_job(&id, extend(current + 5, Some(1))).await.unwrap();
    assert_eq!((extended.plan().unwrap().max_trials, extended.state), (current + 5, JobState::Queued));
    assert_eq!(extended.training_input, serde_json::json!({"new": current + 5}));
    let store = reopen(medium, store).await;
    assert_eq!(store.job(&id).await.unwrap(), extended);
    assert_eq!(store.study(&study.id).await.unwrap().state, StudyState::Active);
    // An unfinished job may get a lower number, and another number at once.
    let both = JobChange::Extend {
        max_trials: Some(current + 1),
        max_parallel_trials: Some(7),
        training_input: serde_json::json!({}),
        revision: None,
        at: samples::at(10),
    };
    let changed = store.change_job(&id, both).await.unwrap();
    let plan = changed.plan().unwrap();
    assert_eq!((plan.max_trials, plan.max_parallel_trials, changed.state), (current + 1, 7, JobState::Queued));
    let plain = Job::restore(JobFields { study: None, ..(*samples::job("plain")).clone() });
    store.create_job(plain, None).await.unwrap();
    let plain = store.change_job(&"plain".parse().unwrap(), extend(99, None)).await;
    assert_refused(plain, "job plain has no maximum number of trials to raise");
}

pub(super) async fn ended_jobs_are_deleted_with_their_trials(medium: &impl Medium) {
    let store = medium.open().await;
    let (job, study) = (samples::job("job"), samples::study("job"));
    let id = job.id.clone();
    assert_not_found(store.delete_job(&id).await, "job job");
    store.create_job(job.clone(), Some(study.clone())).await.unwrap();
    store.create_trial(&study.id, samples::new_trial(1)).await.unwrap();
    assert_refused(store.delete_job(&id).await, "cannot delete job job: it is QUEUED");
    let cancel = JobChange::Become { state: JobState::Cancelled, error_message: String::new(), at: samples::at(5) };
    store.change_job(&id, cancel).await.unwrap();
    store.delete_job(&id).await.unwrap();
    let store = reopen(medium, store).await;
    assert_not_found(store.job(&id).await, "job job");
    assert_not_found(store.study(&study.id).await, "study job");
    assert!(store.jobs(None, 10).await.unwrap().is_empty());
    store.create_job(job, Some(study.clone())).await.unwrap();
    assert!(store.trials(&study.id, None, 10).await.unwrap().is_empty());
}
