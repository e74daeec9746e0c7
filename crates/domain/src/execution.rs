//! Identity and end of one program run.
//!
//! These values have a serialised form: executors store them in files, and agents read them.

use std::fmt;

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::TrialId;

use super::{AttemptLocation, JobId};

/// Identity of one program run; engines derive job names from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorJobId {
    #[serde(with = "text_of_job_id")]
    pub job: JobId,
    /// `None` for a job without hyperparameters.
    pub trial: Option<TrialId>,
    /// From 1.
    pub attempt: u64,
}

impl ExecutorJobId {
    /// Whether `text` identifies a run of `job`.
    pub fn is_of(text: &str, job: &JobId) -> bool {
        // Job names contain no hyphen.
        text.strip_prefix(&Self::file_name_of(job)).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Prefix of the text of every run of `job`, suitable for file names: slashes become tildes, which job names do not
    /// contain.
    pub fn file_name_of(job: &JobId) -> String {
        job.as_str().replace('/', "~")
    }
}

impl fmt::Display for ExecutorJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = Self::file_name_of(&self.job);
        match self.trial {
            Some(trial) => write!(f, "{job}-trial-{trial}-attempt-{}", self.attempt),
            None => write!(f, "{job}-attempt-{}", self.attempt),
        }
    }
}

impl From<&ExecutorJobId> for AttemptLocation {
    /// Location without known nodes.
    fn from(id: &ExecutorJobId) -> Self {
        Self { attempt: id.attempt, ..Self::default() }
    }
}

/// End of the master's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    pub end: ProgramEnd,
    /// Reason the executor stopped the program; `None` if it ended by itself.
    pub stopped: Option<StopReason>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    /// Exit code; 0 is success.
    Exited(i32),
    /// Number of the signal that killed the program.
    Signaled(i32),
    /// Killed for exceeding its memory limit.
    OutOfMemory,
    /// Reason the program could not be started.
    NotStarted(String),
}

/// Reason for an executor to stop a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// Requested by the server or a user.
    Requested,
    TimeLimit,
}

/// Serialises job IDs as text.
mod text_of_job_id {
    use crate::JobId;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
