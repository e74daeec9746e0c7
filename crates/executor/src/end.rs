//! Ends of programs.

use serde::{Deserialize, Serialize};

/// End of the master of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    /// The end of the program.
    pub end: ProgramEnd,
    /// The reason for which the executor stopped the job; `None` if it did not.
    pub stopped: Option<StopReason>,
}

/// End of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    /// The program exited with this code; 0 is success.
    Exited(i32),
    /// The program was killed by this signal.
    Signaled(i32),
    /// The program was killed because it took more memory than it may.
    OutOfMemory,
    /// The program could not be started, for this reason.
    NotStarted(String),
}

/// The reason for which an executor stopped a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// [`Executor::stop`](crate::Executor::stop) was called.
    Requested,
    /// The job exceeded its time limit.
    TimeLimit,
}
