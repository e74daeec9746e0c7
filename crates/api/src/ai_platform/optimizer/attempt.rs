//! Locations of a trial's runs, in responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::Int64;
use tunesmith_domain::{AttemptLocation, ReplicaNode};

/// Where a run of the program of a trial is or was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrialAttempt")]
pub struct AttemptMessage {
    /// Number of the run, from 1.
    pub attempt: Int64,
    /// Name of the executor, of a server with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The nodes that are known.
    pub nodes: Vec<NodeMessage>,
}

/// The node of a replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TrialNode")]
pub struct NodeMessage {
    /// The task of the replica, such as `worker-0`; absent if all replicas run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The node, as its engine names it: a host name, the name of a node of Kubernetes, or an address of a node of Ray.
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
