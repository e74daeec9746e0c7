//! Messages between agents and the server.

use serde::{Deserialize, Serialize};

use crate::ExecutorJobSpec;
pub use tunesmith_domain::{AgentCommand, AgentEnd, AgentReport, LogPiece, LogPosition};

/// Version of [`AgentSpec`].
pub const SPEC_FORMAT: u32 = 1;

/// Input of an agent: the content of its specification file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Version of the content: [`SPEC_FORMAT`].
    pub format: u32,
    pub spec: ExecutorJobSpec,
    /// Maximum disk space of the logs on the node in bytes; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_quota_bytes: Option<u64>,
}

impl AgentSpec {
    /// Input of the agent that runs `spec`.
    pub fn new(spec: ExecutorJobSpec, log_quota_bytes: Option<u64>) -> Self {
        Self { format: SPEC_FORMAT, spec, log_quota_bytes }
    }
}

/// Response to a received report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Size of each reported log, and thus the offset of its next part.
    pub logs: Vec<LogPosition>,
    /// Addresses of all replicas in order, once known, if the report contains one.
    pub addresses: Vec<String>,
    /// Command to the agent.
    pub command: AgentCommand,
}
