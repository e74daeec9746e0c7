//! Objects as returned by an API server of version 1.36, reduced to the fields that are read.

use serde_json::{Value, json};

use super::*;

/// Job with `conditions`, each `(type, reason)`.
fn job(conditions: &[(&str, &str)]) -> Job {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, reason)| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "…",
                   "lastProbeTime": "2026-01-01T00:00:09Z", "lastTransitionTime": "2026-01-01T00:00:09Z"})
        })
        .collect();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ts-j-1", "uid": "u1"},
        "spec": {"backoffLimit": 0, "template": {"spec": {"containers": []}}},
        "status": {"conditions": conditions, "active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"},
    });
    serde_json::from_value(job).unwrap()
}

fn pod(status: &Value) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "ts-j-1-x7v2p", "uid": "p1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [], "nodeName": "node-3"}, "status": status,
    });
    serde_json::from_value(pod).unwrap()
}

/// Status of a failed pod whose agent exited with `code` for `reason` after `disruption`.
fn failed(code: i32, reason: &str, disruption: Option<(&str, &str)>) -> Value {
    let conditions: Vec<Value> = disruption
        .iter()
        .map(|(reason, message)| json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}))
        .collect();
    json!({
        "phase": "Failed", "conditions": conditions,
        "containerStatuses": [{"name": "trial", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason, "message": "first\nthe server was never reached\n"}}}],
    })
}

fn container(name: &str, reason: &str, message: Option<&str>) -> Value {
    json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
           "state": {"waiting": {"reason": reason, "message": message}}})
}

fn waits(status: &Value) -> String {
    match place(&job(&[]), &[pod(status)]) {
        AgentState::Waiting { reason } => reason,
        other => panic!("{other:?}"),
    }
}

fn gone_of(job: &Job, status: &Value) -> (LossCause, String) {
    match place(job, &[pod(status)]) {
        AgentState::Gone { cause, reason } => (cause, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pending_pod_states_why_it_waits() {
    let unschedulable = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
         "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\npreemption: no victims"}]});
    assert_eq!(
        waits(&unschedulable),
        "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: no victims"
    );
    let pulled = json!({"phase": "Pending", "initContainerStatuses": [container("agent", "PodInitializing", None)],
        "containerStatuses": [container("trial", "ImagePullBackOff", Some("Back-off pulling image \"trainer:1\""))]});
    assert_eq!(waits(&pulled), "ImagePullBackOff: Back-off pulling image \"trainer:1\"");
    let created = json!({"phase": "Pending", "containerStatuses": [container("trial", "ContainerCreating", None)]});
    assert_eq!(waits(&created), "its container is being created");
}

#[test]
fn job_without_pods_waits() {
    let waiting = |reason: &str| AgentState::Waiting { reason: reason.to_owned() };
    assert_eq!(place(&job(&[]), &[]), waiting("its pod was not created yet"));
    let mut suspended = job(&[]);
    suspended.spec.as_mut().unwrap().suspend = Some(true);
    assert_eq!(
        place(&suspended, &[]),
        waiting("its job is suspended: it waits for its turn in a queue of the cluster")
    );
}

#[test]
fn running_pod_runs_until_its_job_has_ended() {
    let running = json!({"phase": "Running"});
    assert_eq!(place(&job(&[]), &[pod(&running)]), AgentState::Running);
    // These conditions precede the end, while the pod may still run.
    for early in ["FailureTarget", "SuccessCriteriaMet"] {
        assert_eq!(place(&job(&[(early, "BackoffLimitExceeded")]), &[pod(&running)]), AgentState::Running, "{early}");
    }
    assert_eq!(place(&job(&[]), &[pod(&failed(1, "Error", None))]), AgentState::Running, "the job ends after its pod");
}

#[test]
fn failed_agent_is_a_failure_with_its_last_line() {
    let (cause, reason) = gone_of(&job(&[("Failed", "BackoffLimitExceeded")]), &failed(4, "Error", None));
    assert_eq!(cause, LossCause::Failure);
    assert_eq!(
        reason,
        "its job is Failed (BackoffLimitExceeded), exit code 4 of its agent: the server was never reached, on the node node-3"
    );
    let complete = job(&[("Complete", "CompletionsReached")]);
    let (_, reason) = gone_of(&complete, &failed(0, "Completed", None));
    assert_eq!(reason, "its job is Complete (CompletionsReached), exit code 0 of its agent, on the node node-3");
}

#[test]
fn agent_that_cannot_be_copied_or_started_was_not_started() {
    let not_started = |status: &Value| match place(&job(&[("Failed", "BackoffLimitExceeded")]), &[pod(status)]) {
        AgentState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None }) => reason,
        other => panic!("{other:?}"),
    };
    let status = json!({"phase": "Failed", "initContainerStatuses": [
        {"name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated":
            {"exitCode": 127, "reason": "StartError", "message": "exec: \"cp\": executable file not found in $PATH"}}}]});
    let reason = not_started(&status);
    let expected = "exit code 127 of the copy of its agent, StartError: exec: \"cp\": executable file not found in $PATH, the agent \
                    image must have cp, and the agent at --kubernetes-agent-path";
    assert!(reason.starts_with(expected), "{reason}");
    for (code, kind) in [(1, "Error"), (2, "Error"), (127, "Error"), (128, "StartError")] {
        let reason = not_started(&failed(code, kind, None));
        assert!(reason.starts_with(&format!("exit code {code} of its agent")), "{reason}");
    }
    // Losing the node is not the image's fault.
    let (cause, _) = gone_of(
        &job(&[("Failed", "PodFailurePolicy")]),
        &failed(1, "Error", Some(("PreemptionByScheduler", "preempted"))),
    );
    assert_eq!(cause, LossCause::Preemption);
}

#[test]
fn place_that_the_cluster_takes_is_a_preemption() {
    let failed_job = job(&[("Failed", "PodFailurePolicy")]);
    for (disruption, message) in [
        ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
        ("EvictionByEvictionAPI", "Eviction API: evicting"),
        ("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown."),
    ] {
        let (cause, reason) = gone_of(&failed_job, &failed(143, "Error", Some((disruption, message))));
        assert_eq!(cause, LossCause::Preemption, "{reason}");
        assert!(reason.contains(disruption) && reason.contains(message), "{reason}");
    }
}

#[test]
fn lost_node_and_exhausted_node_are_failures() {
    let taint = Some(("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"));
    let (cause, reason) = gone_of(&job(&[("Failed", "PodFailurePolicy")]), &failed(0, "Completed", taint));
    assert_eq!(cause, LossCause::Failure);
    assert!(reason.contains("DeletionByTaintManager") && reason.ends_with("on the node node-3"), "{reason}");

    let mut evicted = failed(137, "Error", Some(("TerminationByKubelet", "The node was low on resource: memory.")));
    evicted["reason"] = "Evicted".into();
    evicted["message"] = "The node was low on resource: memory.".into();
    let (cause, reason) = gone_of(&job(&[("Failed", "PodFailurePolicy")]), &evicted);
    assert_eq!(cause, LossCause::Failure);
    assert!(reason.contains("Evicted: The node was low on resource: memory."), "{reason}");
}

#[test]
fn pod_that_hangs_on_a_lost_node_is_gone_while_its_job_is_active() {
    let mut hanging = pod(&json!({"phase": "Running", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "Taint manager"}]}));
    assert_eq!(place(&job(&[]), &[hanging.clone()]), AgentState::Running, "it is not deleted yet");
    let mut value = serde_json::to_value(&hanging).unwrap();
    value["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z".into();
    hanging = serde_json::from_value(value).unwrap();
    let AgentState::Gone { cause: LossCause::Failure, reason } = place(&job(&[]), &[hanging]) else { panic!() };
    assert!(reason.starts_with("its pod is deleted, DeletionByTaintManager: Taint manager"), "{reason}");
}

#[test]
fn memory_limit_is_the_end_of_the_program() {
    let ended = place(&job(&[("Failed", "BackoffLimitExceeded")]), &[pod(&failed(137, "OOMKilled", None))]);
    assert_eq!(ended, AgentState::Ended(ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None }));
}

#[test]
fn deadline_and_deletion_are_failures_with_the_reason() {
    let mut late = failed(143, "Error", None);
    late["reason"] = "DeadlineExceeded".into();
    late["message"] = "Pod was active on the node longer than the specified deadline".into();
    let (cause, reason) = gone_of(&job(&[("Failed", "BackoffLimitExceeded")]), &late);
    assert_eq!(cause, LossCause::Failure);
    assert!(reason.contains("DeadlineExceeded: Pod was active on the node longer"), "{reason}");
    // A Job deadline deletes the pod.
    let without = place(&job(&[("Failed", "DeadlineExceeded")]), &[]);
    assert_eq!(
        without,
        AgentState::Gone { cause: LossCause::Failure, reason: "its job is Failed (DeadlineExceeded)".to_owned() }
    );
}

#[test]
fn newest_pod_counts() {
    let mut value = serde_json::to_value(pod(&json!({"phase": "Running"}))).unwrap();
    value["metadata"]["creationTimestamp"] = "2026-01-01T00:00:07Z".into();
    let newer: Pod = serde_json::from_value(value).unwrap();
    let older = pod(&json!({"phase": "Pending"}));
    assert_eq!(place(&job(&[]), &[newer.clone(), older.clone()]), AgentState::Running);
    assert_eq!(place(&job(&[]), &[older, newer]), AgentState::Running);
}
