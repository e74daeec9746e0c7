//! What the engine concludes and requests, on the API server of this process.

use serde_json::json;
use tunesmith_contract::executor::{Harness, add_replicas, log_of, run, shell, until_ready, until_replica_is_ready};
use tunesmith_domain::LossCause;
use tunesmith_executor::logs::LogStream;
use tunesmith_executor::remote::{AgentEngine, AgentId, AgentState};
use tunesmith_executor::{
    Executor, ExecutorError, ExecutorJobSpec, ExecutorJobState, ExitStatus, Program, ProgramEnd, Role, StopMode,
    StopReason,
};

use super::InProcess;

/// A program that runs until it is stopped.
const LONG: &str = "sh -c 'echo ready; exec sleep 1000' & wait";

fn count(requests: &[String], wanted: &str) -> usize {
    requests.iter().filter(|request| *request == wanted).count()
}

/// The reason for which `spec` waits.
async fn waits(executor: &dyn Executor, spec: &ExecutorJobSpec) -> String {
    match executor.state(&spec.id).await.unwrap() {
        ExecutorJobState::Waiting { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Waits until the engine sees the state that `is_wanted` accepts, of which the cluster has notified it.
async fn until(place: &InProcess, engine: &dyn AgentEngine, spec: &ExecutorJobSpec, wanted: &AgentState) {
    while engine.place(&AgentId::of(spec)).await.unwrap() != *wanted {
        tokio::task::yield_now().await;
    }
    drop(place.api().requests());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_and_namespace_of_the_job_are_used() {
    let place = InProcess::new();
    let mut spec = shell(&place, 1, "");
    spec.placement.queue = Some("gpu".to_owned());
    spec.replicas[0].program = Program::Container {
        image: "census:2".to_owned(),
        command: vec!["sh".to_owned(), "-c".to_owned()],
        args: vec!["test \"$CLUSTER_SPEC\" = \"$TF_CONFIG\" && exit 7".to_owned()],
        mounts: Vec::new(),
    };
    let ended = ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(7), stopped: None });
    let executor = place.executor();
    assert_eq!(run(&*executor, &spec).await, ended);
    let (key, job) = place.api().all("jobs").remove(0);
    assert_eq!(key.1, "gpu");
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "census:2");
    let secret = place.api().all("secrets").remove(0).1;
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
    executor.clean_up(&spec.id).await.unwrap();
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
    assert_eq!(executor.state(&spec.id).await.unwrap(), ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempted_pod_is_a_preemption() {
    let place = InProcess::new();
    let (executor, spec) = (place.executor(), shell(&place, 1, LONG));
    executor.submit(&spec).await.unwrap();
    until_ready(&place, &*executor, &spec).await;
    place.kubelet().preempt(&place.job_of(&spec));
    let state = executor.wait(&spec.id).await.unwrap();
    assert!(matches!(state, ExecutorJobState::Lost { cause: LossCause::Preemption, .. }), "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempted_replica_ends_the_attempt_as_a_whole() {
    let place = InProcess::new();
    let (executor, mut spec) = (
        place.executor(),
        shell(&place, 1, "trap 'echo asked; exit 0' TERM; sh -c 'echo ready; exec sleep 1000' & wait"),
    );
    add_replicas(&mut spec, &[(Role::Worker, 0), (Role::Worker, 1)], LONG);
    executor.submit(&spec).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 3);
    for task in ["master-0", "worker-0", "worker-1"] {
        until_replica_is_ready(&place, &*executor, &spec, task).await;
    }
    let is_worker = |job: &serde_json::Value| job["metadata"]["labels"]["tunesmith.dev/replica"] == "worker-1";
    let (key, _) = place.api().all("jobs").into_iter().find(|(_, job)| is_worker(job)).unwrap();
    place.kubelet().preempt(&key.2);
    let state = executor.wait(&spec.id).await.unwrap();
    let ExecutorJobState::Lost { cause: LossCause::Preemption, reason } = state else { panic!("{state:?}") };
    assert!(reason.starts_with("worker-1: "), "{reason}");
    let output = log_of(&place, &spec, "master-0", LogStream::Stdout).await;
    assert!(output.ends_with("asked\n"), "{output}");
    executor.clean_up(&spec.id).await.unwrap();
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_the_cluster_refuses_leaves_no_other() {
    let place = InProcess::new();
    let (executor, mut spec) = (place.executor(), shell(&place, 1, LONG));
    add_replicas(&mut spec, &[(Role::Worker, 0)], LONG);
    let (image, command, args, mounts) = ("worker:1".to_owned(), Vec::new(), Vec::new(), Vec::new());
    spec.replicas[1].program = Program::Container { image, command, args, mounts };
    executor.submit(&spec).await.unwrap();
    let state = executor.wait(&spec.id).await.unwrap();
    let ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) = state else {
        panic!("{state:?}")
    };
    assert!(reason.starts_with("worker-0: the image worker:1 has to be started by its entry point"), "{reason}");
    executor.clean_up(&spec.id).await.unwrap();
    assert!(place.api().all("jobs").is_empty() && place.api().all("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_node_is_a_loss_and_its_agent_is_superseded() {
    let place = InProcess::new();
    let (executor, spec) = (place.executor(), shell(&place, 1, LONG));
    executor.submit(&spec).await.unwrap();
    until_ready(&place, &*executor, &spec).await;
    place.kubelet().lose_node(&place.job_of(&spec));
    let state = executor.wait(&spec.id).await.unwrap();
    let ExecutorJobState::Lost { cause: LossCause::Failure, reason } = state else { panic!("{state:?}") };
    assert!(reason.contains("DeletionByTaintManager"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_image_without_the_agent_is_the_reason_of_a_loss() {
    let place = InProcess { agent_path: "/usr/local/bin/tunesmith-of-another-image", ..InProcess::new() };
    let (executor, spec) = (place.executor(), shell(&place, 1, LONG));
    executor.submit(&spec).await.unwrap();
    let state = executor.wait(&spec.id).await.unwrap();
    let ExecutorJobState::Lost { cause: LossCause::Failure, reason } = state else { panic!("{state:?}") };
    let expected = "exit code 1 of the copy of its agent: cp: cannot stat '/usr/local/bin/tunesmith-of-another-image': No such file or \
                    directory, the agent image must have cp, and the agent at --kubernetes-agent-path";
    assert!(reason.contains(expected), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exceeded_memory_is_the_end_of_the_program() {
    let place = InProcess::new();
    let (executor, spec) = (place.executor(), shell(&place, 1, LONG));
    executor.submit(&spec).await.unwrap();
    until_ready(&place, &*executor, &spec).await;
    place.kubelet().exceed_memory(&place.job_of(&spec));
    let state = executor.wait(&spec.id).await.unwrap();
    assert_eq!(state, ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_job_states_its_reason_and_is_deleted_when_it_is_stopped() {
    let place = InProcess::new();
    let (executor, mut spec) = (place.executor(), shell(&place, 1, "true"));
    spec.placement.options.insert("node/gpu".to_owned(), "a100".to_owned());
    executor.submit(&spec).await.unwrap();
    let reason = loop {
        let reason = waits(&*executor, &spec).await;
        if reason != "its pod was not created yet" {
            break reason;
        }
    };
    assert!(reason.starts_with("Unschedulable: 0/1 nodes are available"), "{reason}");
    executor.stop(&spec.id, StopMode::Graceful).await.unwrap();
    assert!(place.api().all("jobs").is_empty());
    let end = ProgramEnd::NotStarted("it was stopped before it started".to_owned());
    let ended = ExecutorJobState::Ended(ExitStatus { end, stopped: Some(StopReason::Requested) });
    assert_eq!(executor.wait(&spec.id).await.unwrap(), ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_quota_is_the_reason_of_a_job_without_pods() {
    let place = InProcess::without_nodes();
    let (executor, spec) = (place.executor(), shell(&place, 1, "true"));
    executor.submit(&spec).await.unwrap();
    let (key, job) = place.api().all("jobs").remove(0);
    place.api().put(
        "events",
        "tests",
        json!({"metadata": {"name": "e1"}, "reason": "FailedCreate", "type": "Warning", "count": 3,
               "lastTimestamp": "2026-01-01T00:00:05Z",
               "message": "Error creating: pods \"x\" is forbidden: exceeded quota: team, limited: pods=4",
               "involvedObject": {"kind": "Job", "name": key.2, "uid": job["metadata"]["uid"]}}),
    );
    let wanted = "FailedCreate: Error creating: pods \"x\" is forbidden: exceeded quota: team, limited: pods=4";
    while waits(&*executor, &spec).await != wanted {
        tokio::task::yield_now().await;
    }
    assert_eq!(count(&place.api().requests(), "GET events"), 1, "one list for all Jobs, which is then watched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_jobs_cost_no_request_each() {
    let place = InProcess::without_nodes();
    let executor = place.executor();
    let specs: Vec<_> = (1..=20).map(|trial| shell(&place, trial, "true")).collect();
    for spec in &specs {
        executor.submit(spec).await.unwrap();
    }
    // As a queue of the cluster does, before a Job gets a pod.
    for (key, _) in place.api().all("jobs") {
        place.api().change(&key, |job| job["spec"]["suspend"] = true.into());
    }
    let suspended = "its job is suspended: it waits for its turn in a queue of the cluster";
    for spec in &specs {
        while waits(&*executor, spec).await != suspended {
            tokio::task::yield_now().await;
        }
    }
    let before = place.api().requests().len();
    for spec in specs.iter().cycle().take(200) {
        assert_eq!(waits(&*executor, spec).await, suspended);
    }
    assert_eq!(place.api().requests().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_submission_is_continued_with_one_job() {
    let place = InProcess::without_nodes();
    let spec = shell(&place, 1, "true");
    place.executor().submit(&spec).await.unwrap();
    // As a server leaves it that is killed before it has recorded the UID.
    let record = place.folder.path().join("kubernetes").join(place.job_of(&spec));
    assert!(std::fs::read_to_string(&record).unwrap().starts_with("tests uid-"));
    std::fs::write(&record, "tests").unwrap();
    let executor = place.executor();
    assert_eq!(waits(&*executor, &spec).await, "its pod was not created yet");
    executor.submit(&spec).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 1);
    assert_eq!(place.api().all("secrets").len(), 1);
    assert!(std::fs::read_to_string(&record).unwrap().starts_with("tests uid-"));

    // And before it has created anything.
    executor.forget(&spec.id.job).await.unwrap();
    std::fs::write(&record, "tests").unwrap();
    executor.submit(&spec).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_another_server_is_not_taken_for_ones_own() {
    let place = InProcess::without_nodes();
    let spec = shell(&place, 1, "true");
    place.executor().submit(&spec).await.unwrap();
    let (key, _) = place.api().all("jobs").remove(0);
    place.api().change(&key, |job| job["metadata"]["labels"]["tunesmith.dev/server"] = "another".into());
    std::fs::write(place.folder.path().join("kubernetes").join(&key.2), "tests").unwrap();
    let error = place.executor().submit(&spec).await.unwrap_err();
    assert!(matches!(error, ExecutorError::Unreachable { .. }), "{error:?}");
    // A Job of the same name that was created later is not the recorded one, and is left alone.
    std::fs::write(place.folder.path().join("kubernetes").join(&key.2), "tests uid-earlier").unwrap();
    let state = place.engine().place(&AgentId::of(&spec)).await.unwrap();
    let AgentState::Gone { cause: LossCause::Failure, reason } = state else { panic!("{state:?}") };
    assert_eq!(reason, "its job was deleted from the cluster");
    place.executor().forget(&spec.id.job).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overloaded_api_server_is_asked_again_and_one_that_is_down_concludes_nothing() {
    let place = InProcess::without_nodes();
    let (executor, spec) = (place.executor(), shell(&place, 1, "true"));
    place.api().fail_next(&[(429, 0), (503, 0)]);
    executor.submit(&spec).await.unwrap();
    assert_eq!(count(&place.api().requests(), "POST secrets"), 3);
    assert_eq!(count(&place.api().requests(), "POST jobs"), 1);
    let other = shell(&place, 2, "true");
    place.api().set_down(true);
    let error = executor.submit(&other).await.unwrap_err();
    assert!(matches!(error, ExecutorError::Unreachable { .. }), "{error:?}");
    assert!(place.executor().state(&spec.id).await.is_err(), "an engine that has seen nothing");
    place.api().set_down(false);
    executor.submit(&other).await.unwrap();
    assert_eq!(place.api().all("jobs").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_survives_lost_connections_and_a_forgotten_history() {
    let place = InProcess::without_nodes();
    let (engine, spec) = (place.engine(), shell(&place, 1, "true"));
    place.executor().submit(&spec).await.unwrap();
    let (key, job) = place.api().all("jobs").remove(0);
    let pod = |phase: &str| {
        json!({"metadata": {"name": format!("{}-x7v2p", key.2), "labels": job["spec"]["template"]["metadata"]["labels"],
                            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": key.2,
                                                 "uid": job["metadata"]["uid"]}]},
               "spec": {"containers": []}, "status": {"phase": phase}})
    };
    let created = AgentState::Waiting { reason: "its container is being created".to_owned() };
    place.api().put("pods", "tests", pod("Pending"));
    until(&place, &engine, &spec, &created).await;
    let watches = |requests: &[String]| (count(requests, "WATCH pods"), count(requests, "GET pods"));
    while watches(&place.api().requests()).0 == 0 {
        tokio::task::yield_now().await;
    }
    // After a bookmark, the watch continues from a version that is still kept.
    place.api().bookmark();
    for (end, phase, wanted) in [
        ("connection", "Running", AgentState::Running),
        ("event 410", "Pending", created.clone()),
        ("answer 410", "Running", AgentState::Running),
    ] {
        let before = watches(&place.api().requests());
        match end {
            "connection" => place.api().end_watches(),
            "event 410" => place.api().compact(false),
            _ => {
                place.api().compact(true);
                place.api().end_watches();
            }
        }
        place.api().put("pods", "tests", pod(phase));
        until(&place, &engine, &spec, &wanted).await;
        // It watches again, after it has listed the objects.
        while end != "connection" && watches(&place.api().requests()).0 == before.0 {
            tokio::task::yield_now().await;
        }
        let after = watches(&place.api().requests());
        assert_eq!(after.1 > before.1, end != "connection", "{end}: objects are listed again after 410 only");
    }
    // While the API server is away, what was seen last is returned.
    place.api().set_down(true);
    place.api().end_watches();
    assert_eq!(engine.place(&AgentId::of(&spec)).await.unwrap(), AgentState::Running);
    place.api().set_down(false);
    place.api().put("pods", "tests", pod("Pending"));
    until(&place, &engine, &spec, &created).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_jobs_than_a_page_are_listed() {
    let place = InProcess::without_nodes();
    let (engine, spec) = (place.engine(), shell(&place, 1, "true"));
    place.executor().submit(&spec).await.unwrap();
    let (_, job) = place.api().all("jobs").remove(0);
    for index in 0..600 {
        let mut copy = job.clone();
        copy["metadata"]["name"] = format!("a-{index}").into();
        place.api().put("jobs", "tests", copy);
    }
    until(&place, &engine, &spec, &AgentState::Waiting { reason: "its pod was not created yet".to_owned() }).await;
    while count(&place.api().requests(), "WATCH jobs") == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(count(&place.api().requests(), "GET jobs"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cluster_refuses_is_rejected_and_leaves_nothing() {
    let place = InProcess::without_nodes();
    let (executor, mut spec) = (place.executor(), shell(&place, 1, "true"));
    spec.placement.queue = Some("nowhere".to_owned());
    // The namespace may be created again.
    let error = executor.submit(&spec).await.unwrap_err();
    assert!(matches!(error, ExecutorError::Unreachable { .. }), "{error:?}");
    spec.placement.queue = None;
    place.api().invalidate("jobs", "spec.template.spec.priorityClassName", "Invalid value: \"x\"");
    let error = executor.submit(&spec).await.unwrap_err();
    let ExecutorError::Refused { reason, .. } = error else { panic!("{error:?}") };
    assert_eq!(reason, "Kubernetes refuses it: spec.template.spec.priorityClassName: Invalid value: \"x\"");
    assert!(place.api().all("secrets").is_empty());

    place.engine().check().await.unwrap();
    place.api().forbid("create jobs");
    place.api().forbid("watch pods");
    let error = place.engine().check().await.unwrap_err().to_string();
    assert!(error.starts_with("this user may not create jobs.batch, watch pods in the namespace \"tests\""), "{error}");
    place.api().set_down(true);
    let error = place.engine().check().await.unwrap_err().to_string();
    assert!(error.contains("cannot be used: the API server answers 503: the server is down"), "{error}");
}
