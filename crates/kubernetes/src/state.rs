//! Agent state derived from a Job and its pods.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus};

use super::objects::TRIAL;
use tunesmith_executor::remote::AgentState;
use tunesmith_executor::{ExitStatus, LossCause, ProgramEnd};

/// `DisruptionTarget` reasons that count as preemption of a healthy pod. `DeletionByTaintManager` is a lost node,
/// `DeletionByPodGC` a removed one.
const PREEMPTIONS: [&str; 3] = ["PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet"];

/// Reason of a pod evicted by the kubelet for memory or disk pressure, or for exceeding its disk limit. A retry would
/// end the same way, so it counts as a failure.
const EVICTED: &str = "Evicted";

/// Uninformative reasons of waiting containers.
const USUAL_REASONS: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// Label with a Job's Kueue queue.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Reason for a scheduled pod whose containers have not started.
const BEING_CREATED: &str = "its container is being created";

/// Maximum length of a quoted message in characters.
const MAX_QUOTE: usize = 500;

/// State of the agent of `job` with `pods`.
pub(super) fn place(job: &Job, pods: &[Pod]) -> AgentState {
    let newest = newest(pods);
    if let Some(condition) = end_of(job) {
        return gone(condition, newest);
    }
    let Some(pod) = newest else {
        return AgentState::Waiting { reason: without_pod(job) };
    };
    let Some(status) = &pod.status else {
        return AgentState::Waiting { reason: "its pod was created".to_owned() };
    };
    // A lost node's pod remains until the node returns, and its Job stays active.
    if pod.metadata.deletion_timestamp.is_some() && disruption(status).is_some() {
        return lost(pod, "its pod is deleted");
    }
    match status.phase.as_deref() {
        Some("Pending") | None => AgentState::Waiting { reason: waiting_reason(status) },
        // The Job ends after its pod.
        _ => AgentState::Running,
    }
}

pub(super) fn newest(pods: &[Pod]) -> Option<&Pod> {
    pods.iter().max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Node of the newest pod, if scheduled.
pub(super) fn node(pods: &[Pod]) -> Option<String> {
    newest(pods)?.spec.as_ref()?.node_name.clone()
}

pub(super) fn has_ended(job: &Job) -> bool {
    end_of(job).is_some()
}

/// Terminal condition of `job`. `FailureTarget` and `SuccessCriteriaMet` precede it while pods may still run.
fn end_of(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

fn gone(condition: &JobCondition, pod: Option<&Pod>) -> AgentState {
    let mut text = format!("its job is {}", condition.type_);
    if let Some(reason) = condition.reason.as_deref().filter(|reason| !reason.is_empty()) {
        text.push_str(&format!(" ({reason})"));
    }
    match pod {
        Some(pod) => lost(pod, &text),
        None => AgentState::Gone { cause: LossCause::Failure, reason: text },
    }
}

fn lost(pod: &Pod, text: &str) -> AgentState {
    let status = pod.status.clone().unwrap_or_default();
    let end = trial_end(&status);
    let disruption = disruption(&status);
    if disruption.is_none() && end.is_some_and(|end| end.reason.as_deref() == Some("OOMKilled")) {
        return AgentState::Ended(ExitStatus { end: ProgramEnd::OutOfMemory, stopped: None });
    }
    if let Some(reason) = start_failure(&status).filter(|_| disruption.is_none() && status.reason.is_none()) {
        return AgentState::Ended(ExitStatus { end: ProgramEnd::NotStarted(reason), stopped: None });
    }
    let mut parts = vec![text.to_owned()];
    let mut cause = LossCause::Failure;
    if let Some(disruption) = disruption {
        let reason = disruption.reason.clone().unwrap_or_default();
        if PREEMPTIONS.contains(&reason.as_str()) && status.reason.as_deref() != Some(EVICTED) {
            cause = LossCause::Preemption;
        }
        parts.push(named(&reason, disruption.message.as_deref()));
    }
    parts.extend(status.reason.as_ref().map(|reason| named(reason, status.message.as_deref())));
    parts.extend(end.map(|end| terminated("its agent", end)));
    if let Some(end) = failed_copy(&status) {
        parts.push(copy_failure(end));
    }
    parts.extend(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).map(|node| format!("on the node {node}")));
    AgentState::Gone { cause, reason: parts.join(", ") }
}

fn disruption(status: &PodStatus) -> Option<&PodCondition> {
    let conditions = status.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
}

/// Termination of the agent's container.
fn trial_end(status: &PodStatus) -> Option<&ContainerStateTerminated> {
    let trial = status.container_statuses.as_ref()?.iter().find(|container| container.name == TRIAL)?;
    terminated_state(trial)
}

/// Termination of the init container, if it failed.
fn failed_copy(status: &PodStatus) -> Option<&ContainerStateTerminated> {
    let ends = status.init_container_statuses.as_ref()?.iter().filter_map(terminated_state);
    ends.into_iter().find(|end| end.exit_code != 0)
}

/// Permanent start failure: the agent cannot start in its image or be copied into it. The agent exits with 1 or 2 for
/// unusable input, the dynamic loader with 1 or 127 for a missing library.
fn start_failure(status: &PodStatus) -> Option<String> {
    let is_of_runtime = |end: &ContainerStateTerminated| {
        matches!(end.exit_code, 126 | 127) || matches!(end.reason.as_deref(), Some("StartError" | "ContainerCannotRun"))
    };
    if let Some(end) = failed_copy(status).filter(|end| is_of_runtime(end)) {
        return Some(copy_failure(end));
    }
    let end = trial_end(status).filter(|end| is_of_runtime(end) || matches!(end.exit_code, 1 | 2))?;
    Some(terminated("its agent", end))
}

fn copy_failure(end: &ContainerStateTerminated) -> String {
    let ended = terminated("the copy of its agent", end);
    format!("{ended}, the agent image must have cp, and the agent at --kubernetes-agent-path")
}

fn terminated_state(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

fn terminated(what: &str, end: &ContainerStateTerminated) -> String {
    let mut text = format!("exit code {} of {what}", end.exit_code);
    if let Some(reason) = end.reason.as_deref().filter(|reason| !matches!(*reason, "Error" | "Completed")) {
        text.push_str(&format!(", {reason}"));
    }
    // Last lines of output, or the start error.
    let message = end.message.as_deref().and_then(|message| message.lines().rfind(|line| !line.trim().is_empty()));
    if let Some(line) = message.filter(|_| end.exit_code != 0) {
        text.push_str(&format!(": {}", quoted(line)));
    }
    text
}

/// Whether `job` is suspended by a cluster queue, such as Kueue's.
pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// Reason why a Job has no pods.
fn without_pod(job: &Job) -> String {
    if is_suspended(job) {
        let labels = job.metadata.labels.as_ref();
        return match labels.and_then(|labels| labels.get(QUEUE_LABEL)) {
            Some(queue) => format!("queued by Kueue in {queue}: its job is suspended until it is admitted"),
            None => "its job is suspended: it waits for its turn in a queue of the cluster".to_owned(),
        };
    }
    "its pod was not created yet".to_owned()
}

/// Reason why a pod is not running: a container that cannot start, or no suitable node.
pub(super) fn waiting_reason(status: &PodStatus) -> String {
    let containers = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    let mut telling = waiting.filter_map(|waiting| Some((waiting.reason.as_deref()?, waiting.message.as_deref())));
    if let Some((reason, message)) = telling.find(|(reason, _)| !USUAL_REASONS.contains(reason)) {
        return named(reason, message);
    }
    let conditions = status.conditions.iter().flatten();
    let unscheduled =
        conditions.into_iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    match unscheduled {
        Some(condition) => named(condition.reason.as_deref().unwrap_or("Unschedulable"), condition.message.as_deref()),
        None => BEING_CREATED.to_owned(),
    }
}

/// Whether the containers of `pod` are being created, including image pulls.
pub(super) fn is_being_created(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| waiting_reason(status) == BEING_CREATED)
}

/// Whether the container of `pod` at `path`, such as `spec.containers{trial}`, has not started.
pub(super) fn waits_for(pod: &Pod, path: &str) -> bool {
    let Some(status) = &pod.status else { return true };
    let containers = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let name = path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')).unwrap_or_default();
    let mut named = containers.filter(|container| container.name == name);
    named.all(|container| container.state.as_ref().is_none_or(|state| state.waiting.is_some()))
}

pub(super) fn named(reason: &str, message: Option<&str>) -> String {
    match message.map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {}", quoted(message)),
        None => reason.to_owned(),
    }
}

/// `text` on one line, truncated.
pub(super) fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_QUOTE).collect()
}

#[cfg(test)]
mod tests;
