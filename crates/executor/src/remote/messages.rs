//! What an agent gets, sends, and is answered.

use serde::{Deserialize, Serialize};

use crate::ExecutorJobSpec;
pub use tunesmith_domain::{AgentCommand, AgentEnd, AgentReport, LogPiece, LogPosition};

/// The version of [`AgentSpec`].
pub const SPEC_FORMAT: u32 = 1;

/// The input of an agent: the content of its specification file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The version of its content: [`SPEC_FORMAT`].
    pub format: u32,
    /// The run.
    pub spec: ExecutorJobSpec,
    /// Maximum disk space of the logs on the node in bytes; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_quota_bytes: Option<u64>,
}

impl AgentSpec {
    /// The input of the agent that runs `spec`, whose logs may take `log_quota_bytes`.
    pub fn new(spec: ExecutorJobSpec, log_quota_bytes: Option<u64>) -> Self {
        Self { format: SPEC_FORMAT, spec, log_quota_bytes }
    }
}

/// What of a report was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The size of each log in the report, which is where its next part starts.
    pub logs: Vec<LogPosition>,
    /// The addresses of all replicas, in their order, if the report has one and all are known.
    pub addresses: Vec<String>,
    /// The request of the server to the agent.
    pub command: AgentCommand,
}
