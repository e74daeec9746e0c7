//! Records of the nodes on which attempts ran.

use serde::{Deserialize, Serialize};

use tunesmith_domain::{AttemptPlace, ReplicaNode};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceRecord {
    attempt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    nodes: Vec<NodeRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRecord {
    /// Absent for all replicas of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    node: String,
}

impl From<&AttemptPlace> for PlaceRecord {
    fn from(AttemptPlace { attempt, executor, nodes }: &AttemptPlace) -> Self {
        let nodes =
            nodes.iter().map(|ReplicaNode { task, node }| NodeRecord { task: task.clone(), node: node.clone() });
        Self { attempt: *attempt, executor: executor.clone(), nodes: nodes.collect() }
    }
}

impl From<PlaceRecord> for AttemptPlace {
    fn from(PlaceRecord { attempt, executor, nodes }: PlaceRecord) -> Self {
        let nodes = nodes.into_iter().map(|NodeRecord { task, node }| ReplicaNode { task, node }).collect();
        Self { attempt, executor, nodes }
    }
}
