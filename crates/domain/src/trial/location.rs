//! Nodes on which the attempts of a trial ran.

/// Maximum number of nodes stored for the earlier attempts of a trial, since the number of preemptions is unlimited.
pub(super) const MAX_KEPT_NODES: usize = 256;

/// Location of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptLocation {
    pub attempt: u64,
    /// Executor, on a server with several; `None` for the server's own.
    pub executor: Option<String>,
    /// Nodes known so far. A single entry without a task stands for all replicas.
    pub nodes: Vec<ReplicaNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaNode {
    /// Task of the replica, such as `worker-0`; `None` for all replicas of the attempt.
    pub task: Option<String>,
    /// Node, as named by its engine.
    pub node: String,
}

impl ReplicaNode {
    /// Node of all replicas of an attempt.
    pub fn of_all(node: impl Into<String>) -> Self {
        Self { task: None, node: node.into() }
    }
}

impl AttemptLocation {
    /// Whether the nodes of all `replicas` are known.
    pub fn is_complete(&self, replicas: usize) -> bool {
        self.nodes.len() >= replicas || self.nodes.iter().any(|node| node.task.is_none())
    }

    /// Distinct node names, in order.
    pub fn node_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for node in &self.nodes {
            if !names.contains(&node.node.as_str()) {
                names.push(&node.node);
            }
        }
        names
    }
}

/// Adds `place` to `places`, sorted by attempt, replacing an entry of the same attempt. The oldest entries are dropped
/// above [`MAX_KEPT_NODES`].
pub(super) fn note(places: &mut Vec<AttemptLocation>, place: AttemptLocation) {
    places.retain(|known| known.attempt != place.attempt);
    places.push(place);
    while places.len() > 1 && places.iter().map(|place| place.nodes.len().max(1)).sum::<usize>() > MAX_KEPT_NODES {
        places.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(attempt: u64, nodes: usize) -> AttemptLocation {
        let node = |index| ReplicaNode { task: Some(format!("worker-{index}")), node: format!("n{}", index % 2) };
        AttemptLocation { attempt, executor: None, nodes: (0..nodes).map(node).collect() }
    }

    #[test]
    fn newest_places_are_kept() {
        let mut places = Vec::new();
        for attempt in 1..=300 {
            note(&mut places, place(attempt, 1));
        }
        assert_eq!((places.len(), places[0].attempt), (MAX_KEPT_NODES, 45));
        note(&mut places, place(300, 3));
        assert_eq!((places.len(), places.last()), (MAX_KEPT_NODES - 2, Some(&place(300, 3))));
        note(&mut places, place(301, 2000));
        assert_eq!(places, [place(301, 2000)], "the current attempt is always kept");
    }

    #[test]
    fn place_is_complete_with_a_node_for_each_replica_or_one_for_all() {
        assert!(!place(1, 2).is_complete(3) && place(1, 3).is_complete(3));
        assert_eq!(place(1, 3).node_names(), ["n0", "n1"]);
        let one = AttemptLocation { nodes: vec![ReplicaNode::of_all("a")], ..AttemptLocation::default() };
        assert!(one.is_complete(3) && !AttemptLocation::default().is_complete(1));
    }
}
