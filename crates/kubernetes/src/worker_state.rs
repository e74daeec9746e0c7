//! State of a group of workers, derived from its Deployment and pods.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodStatus};
use kube::ResourceExt;

use super::state::{named, quoted, waiting_reason};
use super::worker_objects::WORKER;
use tunesmith_executor::{WorkerEnd, WorkerPod, WorkersState};

/// Reasons of waiting containers that do not start without a change. The kubelet repeats some of the attempts.
const FAILURES: [&str; 9] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
];

/// State of the group with `deployment` and `pods`.
pub(super) fn state<'a>(deployment: Option<&Deployment>, pods: impl Iterator<Item = &'a Pod> + Clone) -> WorkersState {
    let running = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
    let statuses = || pods.clone().filter(running).filter_map(|pod| pod.status.as_ref());
    let refused = deployment.and_then(refused_pods);
    let failure = statuses().find_map(failure).or(refused);
    let waiting = statuses().find(|status| is_pending(status)).map(waiting_reason);
    WorkersState {
        pods: Some(pods.clone().map(seen).collect()),
        exists: deployment.is_some(),
        failure,
        waiting: waiting.map(|reason| format!("its pod waits: {reason}")),
    }
}

/// Why the controller creates no pods, such as an exhausted quota or an admission webhook.
fn refused_pods(deployment: &Deployment) -> Option<String> {
    let status = deployment.status.as_ref()?;
    let wanted = deployment.spec.as_ref()?.replicas.unwrap_or_default();
    if status.replicas.unwrap_or_default() >= wanted {
        return None;
    }
    let conditions = status.conditions.as_ref()?;
    let failed = conditions.iter().find(|one| one.type_ == "ReplicaFailure" && one.status == "True")?;
    Some(format!("Kubernetes creates no pod: {}", quoted(failed.message.as_deref().unwrap_or_default())))
}

fn is_pending(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Pending") | None)
}

/// Why a container of a pod does not start.
fn failure(status: &PodStatus) -> Option<String> {
    let containers = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let waiting = containers.filter_map(|one| Some((&one.image, one.state.as_ref()?.waiting.as_ref()?)));
    let mut failed = waiting.filter(|(_, waiting)| FAILURES.contains(&waiting.reason.as_deref().unwrap_or_default()));
    let (image, waiting) = failed.next()?;
    let reason = named(waiting.reason.as_deref().unwrap_or_default(), waiting.message.as_deref());
    let image = if image.is_empty() || reason.contains(image.as_str()) { String::new() } else { format!(" ({image})") };
    Some(format!("its pod does not start: {reason}{image}"))
}

fn seen(pod: &Pod) -> WorkerPod {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let container = statuses.into_iter().find(|container| container.name == WORKER);
    let (mut ends, mut last_end, mut is_running) = (0, None, false);
    if let Some(container) = container {
        let now = container.state.as_ref().and_then(|state| state.terminated.as_ref());
        let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        is_running = container.state.as_ref().is_some_and(|state| state.running.is_some());
        // The container is counted when it starts again.
        let has_just_ended = now.is_some() || (!is_running && before.is_some());
        ends = u32::try_from(container.restart_count).unwrap_or_default() + u32::from(has_just_ended);
        last_end = now.or(before).map(end_of);
    }
    if let Some(reason) = pod.status.as_ref().and_then(|status| status.reason.as_ref()) {
        // Such as an eviction, which ends the pod.
        let message = pod.status.as_ref().and_then(|status| status.message.as_deref());
        ends = ends.max(1);
        last_end = Some(WorkerEnd { status: named(reason, message), output: String::new() });
    }
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    WorkerPod { name: pod.name_any(), ends, last_end, is_running, is_leaving }
}

fn end_of(end: &ContainerStateTerminated) -> WorkerEnd {
    let mut status = format!("exit code {}", end.exit_code);
    if let Some(reason) = end.reason.as_deref().filter(|reason| !matches!(*reason, "Error" | "Completed")) {
        status.push_str(&format!(", {reason}"));
    }
    WorkerEnd { status, output: end.message.clone().unwrap_or_default().trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(deployment: Value, pods: &[Value]) -> WorkersState {
        let pods: Vec<Pod> = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect();
        let deployment: Option<Deployment> = serde_json::from_value(deployment).unwrap();
        state(deployment.as_ref(), pods.iter())
    }

    fn pod(container: &Value) -> Value {
        let mut container = container.clone();
        for (name, value) in [("name", json!("worker")), ("imageID", json!("")), ("ready", json!(false))] {
            container[name] = value;
        }
        json!({"metadata": {"name": "a"}, "status": {"phase": "Pending", "containerStatuses": [container]}})
    }

    #[test]
    fn images_that_cannot_be_pulled_are_failures() {
        let waiting = |reason: &str, message: &str| {
            let state = json!({"waiting": {"reason": reason, "message": message}});
            of(json!(null), &[pod(&json!({"image": "absent:1", "restartCount": 0, "state": state}))])
        };
        let failed = waiting("ErrImagePull", "rpc error: not found").failure.unwrap();
        assert_eq!(failed, "its pod does not start: ErrImagePull: rpc error: not found (absent:1)");
        let failed = waiting("InvalidImageName", "couldn't parse \"absent:1\"").failure.unwrap();
        assert_eq!(failed, "its pod does not start: InvalidImageName: couldn't parse \"absent:1\"");
        let pulled = waiting("ContainerCreating", "");
        assert_eq!(
            (pulled.failure, pulled.waiting.as_deref()),
            (None, Some("its pod waits: its container is being created"))
        );
    }

    #[test]
    fn quota_is_a_failure_until_the_pods_are_there() {
        let deployment = |replicas: u32| {
            json!({"metadata": {}, "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {
                "replicas": replicas, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": "pods \"a\" is forbidden: exceeded quota: compute"}]}})
        };
        let failed = of(deployment(1), &[]).failure.unwrap();
        assert_eq!(failed, "Kubernetes creates no pod: pods \"a\" is forbidden: exceeded quota: compute");
        assert_eq!(of(deployment(2), &[]).failure, None);
    }

    #[test]
    fn ends_are_counted_before_the_container_starts_again() {
        let ended = json!({"exitCode": 137, "reason": "OOMKilled", "message": "Killed\n"});
        let seen = |restarts: u32, state: Value, last: Value| {
            let container = json!({"image": "", "restartCount": restarts, "state": state, "lastState": last});
            of(json!(null), &[pod(&container)]).pods.unwrap().remove(0)
        };
        let running = json!({"running": {}});
        assert_eq!(seen(0, running.clone(), json!({})).ends, 0);
        let first = seen(0, json!({"terminated": ended}), json!({}));
        let end = WorkerEnd { status: "exit code 137, OOMKilled".to_owned(), output: "Killed".to_owned() };
        assert_eq!((first.ends, first.last_end), (1, Some(end)));
        assert_eq!(seen(0, json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"terminated": ended})).ends, 1);
        assert_eq!(seen(1, running, json!({"terminated": ended})).ends, 1);
        let evicted =
            json!({"metadata": {"name": "a"}, "status": {"reason": "Evicted", "message": "disk", "phase": "Failed"}});
        let evicted = of(json!(null), &[evicted]).pods.unwrap().remove(0);
        assert_eq!((evicted.ends, evicted.last_end.unwrap().status.as_str()), (1, "Evicted: disk"));
    }
}
