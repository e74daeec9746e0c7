//! Queues of the cluster, and several servers that share a store.

use std::sync::Arc;

use rustix::process::Signal;
use serde_json::json;
use tunesmith_contract::executor::{Harness, shell, until_ready};
use tunesmith_domain::LossCause;
use tunesmith_executor::remote::{Inbox, RemoteExecutor};
use tunesmith_executor::{Executor, ExecutorJobSpec, ExecutorJobState, ExitStatus, ProgramEnd};

use super::InProcess;

/// A program that runs until it is stopped.
const LONG: &str = "sh -c 'echo ready; exec sleep 1000' & wait";

/// A run of `script` in the queue `team` of Kueue.
fn queued(place: &InProcess, script: &str) -> ExecutorJobSpec {
    let mut spec = shell(place, 1, script);
    spec.placement.options.insert("label/kueue.x-k8s.io/queue-name".to_owned(), "team".to_owned());
    spec
}

/// Waits until the state of `spec` is waiting for a reason that `is_wanted` accepts.
async fn until_waiting(executor: &dyn Executor, spec: &ExecutorJobSpec, is_wanted: impl Fn(&str) -> bool) {
    loop {
        match executor.state(&spec.id).await.unwrap() {
            ExecutorJobState::Waiting { reason } if is_wanted(&reason) => return,
            ExecutorJobState::Waiting { .. } => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_a_queue_suspends_after_its_start_is_preempted_and_removed() {
    // With a notice that the agent reports, and without.
    for signal in [Signal::TERM, Signal::KILL] {
        let place = InProcess::new();
        let (executor, spec) = (place.executor(), queued(&place, LONG));
        executor.submit(&spec).await.unwrap();
        until_ready(&place, &*executor, &spec).await;
        let key = place.kubelet().suspend(&place.job_of(&spec), signal);
        let state = executor.wait(&spec.id).await.unwrap();
        let ExecutorJobState::Lost { cause: LossCause::Preemption, reason } = state else { panic!("{state:?}") };
        if signal == Signal::KILL {
            let wanted = "its place was taken after it had started: queued by Kueue in team: its job is suspended until it is \
                          admitted";
            assert_eq!(reason, wanted);
        }
        // Admitted again, it would start a pod for nothing.
        executor.clean_up(&spec.id).await.unwrap();
        assert_eq!((place.api().get(&key), place.api().all("secrets").len()), (None, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_job_names_its_queue_and_runs_once_it_is_admitted() {
    let place = InProcess::new();
    place.kubelet().set_capacity(0);
    let (executor, spec) = (place.executor(), queued(&place, "true"));
    executor.submit(&spec).await.unwrap();
    until_waiting(&*executor, &spec, |reason| reason.starts_with("Unschedulable")).await;
    // It had a pod, but nothing has run in it.
    let pod = place.api().all("pods").remove(0).0;
    let key = ("jobs".to_owned(), "tests".to_owned(), place.job_of(&spec));
    place.api().change(&key, |job| job["spec"]["suspend"] = true.into());
    place.api().remove(&pod);
    let queued = "queued by Kueue in team: its job is suspended until it is admitted";
    until_waiting(&*executor, &spec, |reason| reason == queued).await;
    place.kubelet().set_capacity(1);
    place.api().change(&key, |job| job["spec"]["suspend"] = serde_json::Value::Null);
    let ended = ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(0), stopped: None });
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_of_an_image_is_a_reason() {
    let place = InProcess::without_nodes();
    let (executor, spec) = (place.executor(), shell(&place, 1, "true"));
    executor.submit(&spec).await.unwrap();
    let (key, job) = place.api().all("jobs").remove(0);
    let mut pod = job["spec"]["template"].clone();
    pod["metadata"]["name"] = "pod".into();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": key.2, "uid": job["metadata"]["uid"]}]);
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    pod["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "trial", "image": "trainer:1", "imageID": "",
        "ready": false, "restartCount": 0, "state": waiting}]});
    place.api().put("pods", "tests", pod);
    until_waiting(&*executor, &spec, |reason| reason == "its container is being created").await;
    let uid = place.api().all("pods").remove(0).1["metadata"]["uid"].clone();
    place.api().put(
        "events",
        "tests",
        json!({"metadata": {"name": "pull"}, "reason": "Pulling",
        "message": "Pulling image \"trainer:1\"", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "uid": uid, "fieldPath": "spec.containers{trial}"}}),
    );
    until_waiting(&*executor, &spec, |reason| reason == "its node is pulling the image \"trainer:1\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_cannot_start_is_not_started() {
    let place = InProcess::new();
    let engine = place.engine_with(|settings| settings.pods.agent_path = "/bin/false".to_owned());
    let executor = RemoteExecutor::new(engine, Arc::clone(&place.inbox));
    let spec = shell(&place, 1, "true");
    executor.submit(&spec).await.unwrap();
    let end = ProgramEnd::NotStarted("exit code 1 of its agent".to_owned());
    let ended = ExecutorJobState::Ended(ExitStatus { end, stopped: None });
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_are_checked_in_the_namespaces_of_queues() {
    let place = InProcess::without_nodes();
    place.api().forbid("delete secrets in gpu");
    place.engine().check().await.unwrap();
    let engine = place.engine_with(|settings| settings.queues.extend(["gpu".to_owned()]));
    let error = engine.check().await.unwrap_err().to_string();
    assert!(error.starts_with("this user may not delete secrets in the namespace \"gpu\""), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_removes_the_jobs_of_attempts_that_it_takes_over() {
    let place = InProcess::without_nodes();
    let of = |registry: &str, store: Option<&str>| {
        let registry = place.directory().join(registry);
        let inbox = Arc::new(Inbox::new(registry.join("inbox")));
        let engine = place.engine_with(|settings| {
            settings.registry = registry;
            settings.store = store.map(str::to_owned);
        });
        RemoteExecutor::new(engine, inbox)
    };
    let (first, second) = (of("first", Some("store-1")), of("second", Some("store-1")));
    let (lost, other) = (shell(&place, 1, "true"), shell(&place, 2, "true"));
    for spec in [&lost, &other] {
        first.submit(spec).await.unwrap();
    }
    // Neither the owner, nor a server of another store, nor one that is alone.
    for spared in [&first, &of("third", Some("store-2")), &of("fourth", None)] {
        spared.supersede(&lost.id).await.unwrap();
    }
    // Another server leaves what it does not take over.
    second.sweep().await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 2);
    assert_eq!(second.state(&lost.id).await.unwrap(), ExecutorJobState::Unknown);
    second.supersede(&lost.id).await.unwrap();
    let left: Vec<String> = place.api().all("jobs").into_iter().map(|(key, _)| key.2).collect();
    assert_eq!(left, [place.job_of(&other)]);
    assert_eq!(place.api().all("secrets").len(), 1);
    // Its next attempt is a Job of its own.
    let mut next = lost.clone();
    next.id.attempt += 1;
    second.submit(&next).await.unwrap();
    second.supersede(&next.id).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 2);
}
