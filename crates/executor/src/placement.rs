//! Placement of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Part of an engine that runs a job, in the engine's terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Executor, for a server with several; `None` for the default one. Engines ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Queue of the engine, such as a Slurm partition or Kubernetes namespace; `None` for the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Further options by name. Engines reject jobs with unknown options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl Placement {
    /// Whether the engine decides on the placement.
    pub fn is_empty(&self) -> bool {
        self.queue.is_none() && self.options.is_empty()
    }
}
