//! What an agent gets, sends, and is answered.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::logs::LogStream;
use crate::{ExecutorJobSpec, ExitStatus};
use tunesmith_domain::Measurement;

/// The newest version of [`AgentSpec`].
pub const SPEC_FORMAT: u32 = 2;

/// The version of specifications whose replicas run in one place.
const SPEC_FORMAT_OF_ONE_PLACE: u32 = 1;

/// The input of an agent: the content of its specification file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The version of its content.
    pub format: u32,
    /// The run.
    pub spec: ExecutorJobSpec,
    /// Whether the server wants to know the node. An agent whose server is of an earlier version does not report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports_node: bool,
    /// Maximum disk space of the logs on the node in bytes; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_quota_bytes: Option<u64>,
}

impl AgentSpec {
    /// The input of the agent that runs `spec`, whose logs may take `log_quota_bytes`.
    pub fn new(spec: ExecutorJobSpec, log_quota_bytes: Option<u64>) -> Self {
        // An agent that does not know parts would start all replicas.
        let format = if spec.part.is_some() { SPEC_FORMAT } else { SPEC_FORMAT_OF_ONE_PLACE };
        Self { format, spec, reports_node: true, log_quota_bytes }
    }
}

/// What an agent reports in one request.
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
    /// What could not be read, if it is new.
    pub problems: Vec<String>,
    /// The notice that the place is taken for other work.
    pub preempted: Option<String>,
    /// The end, after everything else was delivered.
    pub end: Option<AgentEnd>,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Where the bytes stand.
    pub position: LogPosition,
    /// The number of bytes before them that were removed, since the log exceeded its quota.
    pub removed: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A place in a log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The replica, such as `master-0`.
    pub task: String,
    /// The output stream.
    pub stream: LogStream,
    /// Offset in bytes.
    pub offset: u64,
}

/// How an attempt ended, as its agent reports.
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
        /// What it had.
        reason: String,
    },
    /// It was lost.
    Lost {
        /// Description of the failure.
        reason: String,
    },
}

/// What the server asks of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Go on.
    Continue,
    /// End the program, with the grace period.
    Stop,
    /// Kill the program.
    Kill,
}

/// What of a report was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The size of each log in the report, which is where its next part starts.
    pub logs: Vec<LogPosition>,
    /// The addresses of all replicas, in their order, if the report has one and all are known.
    pub addresses: Vec<String>,
    /// What the server asks.
    pub command: Command,
}
