//! Reasons for which trials and jobs wait.

use jiff::Timestamp;
use tunesmith_algorithms::problem::TrialId;

/// The reason for which trials or a job wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The kind of the reason.
    pub kind: WaitKind,
    /// A description for users.
    pub reason: String,
    /// The waiting trial; `None` for a job, and for trials that are not created yet.
    pub trial: Option<TrialId>,
    /// Number of waiting trials; 0 for a job.
    pub trials: u64,
    /// Start of the wait.
    pub since: Timestamp,
}

/// The kind of resource that a trial or job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// A limit on concurrent trials.
    Limit,
    /// The limit of one executor on concurrent trials.
    ExecutorLimit,
    /// Processors, memory or accelerators that are in use.
    Resources,
    /// A free job slot.
    JobSlot,
    /// The engine that runs the program.
    Engine,
}

impl WaitKind {
    /// The name of the kind, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::ExecutorLimit => "executor_limit",
            Self::Resources => "resources",
            Self::JobSlot => "job_slot",
            Self::Engine => "engine",
        }
    }
}
