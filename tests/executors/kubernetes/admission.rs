//! A namespace that refuses pods, and a watch that reports nothing.

use std::sync::Arc;

use serde_json::json;
use tunesmith_contract::executor::{Harness, run, shell, until_ready};
use tunesmith_executor::remote::RemoteExecutor;
use tunesmith_executor::{ExecutorJobState, ExitStatus, ProgramEnd};
use tunesmith_kubernetes::PodTemplate;

use super::InProcess;
use super::kueue::Kueue;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_that_its_namespace_refuses_is_a_reason_and_one_by_the_template_runs() {
    let place = InProcess::new();
    place.api().enforce_restricted();
    let (executor, refused) = (place.executor(), shell(&place, 1, "true"));
    executor.submit(&refused).await.unwrap();
    let reason = loop {
        match executor.state(&refused.id).await.unwrap() {
            ExecutorJobState::Waiting { reason } if reason.starts_with("FailedCreate") => break reason,
            ExecutorJobState::Waiting { .. } => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot"), "{reason}");
    assert!(place.api().all("pods").is_empty());

    let engine = place.engine_with(|settings| {
        let security = json!({"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000});
        settings.pods.template = PodTemplate::new(json!({"spec": {"securityContext": security}})).unwrap();
    });
    let executor = RemoteExecutor::new(engine, Arc::clone(&place.inbox));
    let ended = ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(0), stopped: None });
    assert_eq!(run(&executor, &shell(&place, 2, "true")).await, ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_that_reports_nothing_takes_no_running_attempt_for_a_suspended_one() {
    let place = InProcess::new();
    let kueue = Kueue::start(place.api());
    let (executor, mut spec) = (place.executor(), shell(&place, 1, "sh -c 'echo ready; exec sleep 1000' & wait"));
    spec.placement.options.insert("label/kueue.x-k8s.io/queue-name".to_owned(), "team".to_owned());
    executor.submit(&spec).await.unwrap();
    let queued = "queued by Kueue in team: its job is suspended until it is admitted".to_owned();
    while executor.state(&spec.id).await.unwrap() != (ExecutorJobState::Waiting { reason: queued.clone() }) {
        tokio::task::yield_now().await;
    }
    place.api().stall_watches();
    kueue.set_quota(1);
    until_ready(&place, &*executor, &spec).await;
    let reads = || place.api().requests().iter().filter(|request| request.starts_with("GET jobs/")).count();
    let before = reads();
    assert_eq!(executor.state(&spec.id).await.unwrap(), ExecutorJobState::Running);
    assert!(reads() > before, "the Job is read");
}
