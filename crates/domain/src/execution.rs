//! One run of a program: its name and its end.
//!
//! Executors keep these values in files, and agents read them, so they have a serialised form.

use std::fmt;

use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::TrialId;

use super::{AttemptLocation, JobId};

/// The name of one run of a program. Names in the engine are derived from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorJobId {
    #[serde(with = "text_of_job_id")]
    pub job: JobId,
    /// The trial; `None` for a job without hyperparameters.
    pub trial: Option<TrialId>,
    /// The attempt, from 1.
    pub attempt: u64,
}

impl ExecutorJobId {
    /// Whether `text` is that of a run of `job`.
    pub fn is_of(text: &str, job: &JobId) -> bool {
        // Names of jobs contain no hyphen.
        text.strip_prefix(&Self::file_name_of(job)).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The beginning of the text of every run of `job`. It is used in names of files, so slashes are replaced; names of
    /// jobs contain no tilde.
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
    /// The place of a run whose nodes are not known.
    fn from(id: &ExecutorJobId) -> Self {
        Self { attempt: id.attempt, ..Self::default() }
    }
}

/// End of the master of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitStatus {
    pub end: ProgramEnd,
    /// The reason for which the executor stopped the job; `None` if it did not.
    pub stopped: Option<StopReason>,
}

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
    /// A request of the server or a user.
    Requested,
    /// The job exceeded its time limit.
    TimeLimit,
}

/// The text of a job ID.
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
