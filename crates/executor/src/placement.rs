//! Where a job runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The part of an engine that runs a job, in the words of the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Name of the executor, for a server with several; `None` for its own one. An engine ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// A queue of the engine: the partition of Slurm, the namespace of Kubernetes. `None` for the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Further settings by name. An engine rejects a job with a setting that it does not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl Placement {
    /// Whether the engine decides.
    pub fn is_empty(&self) -> bool {
        self.queue.is_none() && self.options.is_empty()
    }
}
