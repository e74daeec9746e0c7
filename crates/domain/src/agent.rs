//! Reports of agents, which run programs on machines that share no files with the server.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{ExitStatus, LogStream, Measurement};

/// The content of one report of an agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentReport {
    /// The task of the replica that the agent runs; `None` if it runs all of the attempt.
    pub task: Option<String>,
    /// The name of the node, in the first report.
    pub node: Option<String>,
    /// The address at which the others of the attempt reach this replica, until theirs are known.
    pub address: Option<SocketAddr>,
    /// Parts of logs.
    pub logs: Vec<LogPiece>,
    /// Number of the first of `measurements` among those of the attempt, from 0.
    pub first_measurement: u64,
    /// The measurements that follow.
    pub measurements: Vec<Measurement>,
    /// The names of all metrics that were seen, if they are new.
    pub seen_tags: BTreeSet<String>,
    /// New problems in reading metrics.
    pub problems: Vec<String>,
    /// The preemption notice.
    pub preempted: Option<String>,
    /// The end, after everything else was delivered.
    pub end: Option<AgentEnd>,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Position of the first byte.
    pub position: LogPosition,
    /// The number of bytes before them that were removed, since the log exceeded its quota.
    pub removed: u64,
    pub bytes: Vec<u8>,
}

/// A position in a log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The replica, such as `master-0`.
    pub task: String,
    /// The output stream.
    pub stream: LogStream,
    /// Offset in bytes.
    pub offset: u64,
}

/// End of an attempt, as reported by its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEnd {
    /// Its program ended.
    Ended(ExitStatus),
    /// Its place was taken for other work.
    Preempted {
        /// The notice.
        reason: String,
    },
    /// It did not get places for all of its replicas, and gave back those that it had. Agents do not report that.
    NotPlaced {
        /// The places that it had.
        reason: String,
    },
    Lost {
        /// Description of the failure.
        reason: String,
    },
}

/// The request of a server to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCommand {
    /// Continue.
    Continue,
    /// End the program, with the grace period.
    Stop,
    /// Kill the program.
    Kill,
}

/// The response of a server to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResponse {
    /// Number of the next measurement of the attempt.
    pub next_measurement: u64,
    /// The next position in each log of the report.
    pub logs: Vec<LogPosition>,
    /// The addresses of all replicas, if the report has one and all are known.
    pub addresses: Vec<String>,
    /// The request to the agent.
    pub command: AgentCommand,
    /// Whether the end is recorded.
    pub ended: bool,
}
