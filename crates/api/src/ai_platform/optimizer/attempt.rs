//! Where the runs of a trial's program were, in responses.

use schemars::JsonSchema;
use serde::Serialize;

use crate::ai_platform::Int64;
use tunesmith_domain::{AttemptPlace, ReplicaNode};

/// Where a run of the program of a trial is or was.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrialAttempt")]
pub(super) struct AttemptMessage {
    /// Number of the run, from 1.
    attempt: Int64,
    /// Name of the executor, of a server with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// The nodes that are known.
    nodes: Vec<NodeMessage>,
}

/// The node of a replica.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TrialNode")]
struct NodeMessage {
    /// The task of the replica, such as `worker-0`; absent if all replicas run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// The node, as its engine names it: a host name, the name of a node of Kubernetes, or an address of a node of Ray.
    node: String,
}

impl From<&AttemptPlace> for AttemptMessage {
    fn from(AttemptPlace { attempt, executor, nodes }: &AttemptPlace) -> Self {
        let message = |ReplicaNode { task, node }: &ReplicaNode| NodeMessage { task: task.clone(), node: node.clone() };
        Self {
            attempt: Int64(attempt.cast_signed()),
            executor: executor.clone(),
            nodes: nodes.iter().map(message).collect(),
        }
    }
}
