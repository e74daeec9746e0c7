//! Reports of agents, which run programs on machines without shared storage.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{ExitStatus, LogStream, Measurement};

/// Content of one agent report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentReport {
    /// Replica task the agent runs; `None` if it runs the whole attempt.
    pub task: Option<String>,
    /// Node name, sent in the first report.
    pub node: Option<String>,
    /// Address of this replica for its peers, sent until the addresses of all replicas are known.
    pub address: Option<SocketAddr>,
    pub logs: Vec<LogPiece>,
    /// Index of the first of `measurements` within the attempt, from 0.
    pub first_measurement: u64,
    /// Consecutive measurements from `first_measurement` on.
    pub measurements: Vec<Measurement>,
    /// Metric tags not reported before.
    pub seen_tags: BTreeSet<String>,
    /// New problems in reading metrics.
    pub problems: Vec<String>,
    /// Preemption notice.
    pub preempted: Option<String>,
    /// End of the attempt, sent after everything else was delivered.
    pub end: Option<AgentEnd>,
}

/// Consecutive bytes of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Position of the first byte.
    pub position: LogPosition,
    /// Bytes dropped before this piece because the log exceeded its quota.
    pub removed: u64,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// Replica, such as `master-0`.
    pub task: String,
    pub stream: LogStream,
    /// Byte offset.
    pub offset: u64,
}

/// End of an attempt, as reported by its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEnd {
    /// The program ended.
    Ended(ExitStatus),
    /// Preempted by the scheduler in favour of other work.
    Preempted {
        /// Preemption notice.
        reason: String,
    },
    /// Only some replicas could be placed; their slots were released. Not reported by agents.
    NotPlaced {
        /// Slots that had been obtained.
        reason: String,
    },
    Lost {
        reason: String,
    },
}

/// Command from a server to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCommand {
    Continue,
    /// End the program; kill it after the grace period.
    Stop,
    /// Kill the program immediately.
    Kill,
}

/// Server response to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResponse {
    /// Index of the next measurement of the attempt the server expects.
    pub next_measurement: u64,
    /// Next expected position in each reported log.
    pub logs: Vec<LogPosition>,
    /// Addresses of all replicas, once known, if the report contains one.
    pub addresses: Vec<String>,
    pub command: AgentCommand,
    /// Whether the end of the attempt is recorded.
    pub ended: bool,
}
