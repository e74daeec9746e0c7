//! A replica of an attempt with separate slots for its replicas.

use serde::{Deserialize, Serialize};

use super::{ExecutorJobSpec, Replica};

/// Replica of an attempt that runs in one slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPart {
    /// Index in [`ExecutorJobSpec::replicas`].
    pub replica: usize,
    /// Addresses (`host:port`) of all replicas, in order; empty until known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

impl ExecutorJobSpec {
    /// Replicas started by this specification, in order; the end of the first is the end of its run. Empty if the index
    /// of its part is out of range.
    pub fn own_replicas(&self) -> &[Replica] {
        match &self.part {
            None => &self.replicas,
            Some(part) => self.replicas.get(part.replica).map_or(&[], std::slice::from_ref),
        }
    }

    /// Whether [`Self::own_replicas`] include the master.
    pub fn has_master(&self) -> bool {
        self.part.as_ref().is_none_or(|part| part.replica == 0)
    }
}
