//! Locations of a trial's runs, in responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::Int64;
use tunesmith_domain::{AttemptLocation, ReplicaNode};

/// Location of a run of a trial's program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrialAttempt")]
pub struct AttemptMessage {
    /// Number of the run, from 1.
    pub attempt: Int64,
    /// Name of the executor, on a server with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Known nodes.
    pub nodes: Vec<NodeMessage>,
}

/// Node of a replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TrialNode")]
pub struct NodeMessage {
    /// Task of the replica, such as `worker-0`; absent if all replicas run on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Node as named by its engine: a host name, the name of a Kubernetes node, or the address of a Ray node.
    pub node: String,
}

impl From<&AttemptLocation> for AttemptMessage {
    fn from(AttemptLocation { attempt, executor, nodes }: &AttemptLocation) -> Self {
        let message = |ReplicaNode { task, node }: &ReplicaNode| NodeMessage { task: task.clone(), node: node.clone() };
        Self {
            attempt: Int64(attempt.cast_signed()),
            executor: executor.clone(),
            nodes: nodes.iter().map(message).collect(),
        }
    }
}
