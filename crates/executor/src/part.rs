//! One replica of an attempt whose replicas run in places of their own.

use serde::{Deserialize, Serialize};

use super::{ExecutorJobSpec, Replica};

/// The replica of an attempt that one place runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPart {
    /// Its position in [`ExecutorJobSpec::replicas`].
    pub replica: usize,
    /// The addresses (`host:port`) of all replicas, in their order; empty before they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

impl ExecutorJobSpec {
    /// The replicas that this specification starts, in order; the end of the first is the end of its run. Empty if its part is
    /// none of the replicas.
    pub fn own_replicas(&self) -> &[Replica] {
        match &self.part {
            None => &self.replicas,
            Some(part) => self.replicas.get(part.replica).map_or(&[], std::slice::from_ref),
        }
    }

    /// Whether the master is one of [`Self::own_replicas`].
    pub fn has_master(&self) -> bool {
        self.part.as_ref().is_none_or(|part| part.replica == 0)
    }
}
