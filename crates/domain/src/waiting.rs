//! Reasons for waiting trials and jobs.

use jiff::Timestamp;
use tunesmith_algorithms::problem::TrialId;

/// Reason for the wait of trials or a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    pub kind: WaitKind,
    /// Description for users.
    pub reason: String,
    /// The waiting trial; `None` for a job, and for trials not yet created.
    pub trial: Option<TrialId>,
    /// Number of waiting trials; 0 for a job.
    pub trials: u64,
    /// Start of the wait.
    pub since: Timestamp,
}

/// Resource that a trial or job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// Limit on concurrent trials.
    Limit,
    /// Limit of one executor on concurrent trials.
    ExecutorLimit,
    /// Processors, memory or accelerators in use.
    Resources,
    /// Free job slot.
    JobSlot,
    /// Engine that runs the program.
    Engine,
}

impl WaitKind {
    /// Name of the kind in lower case.
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
