//! Names of the logs of a job.

use std::fmt;
use std::str::FromStr;

/// Task prefixes of replicas other than the master.
const ROLES: [&str; 3] = ["worker-", "ps-", "evaluator-"];

/// Task of the master.
pub const MASTER: &str = "master-0";

/// Task that installs a job's packages: once before the first attempt or, with agents, in each attempt.
pub const PACKAGES: &str = "packages";

/// Name of one log of a job, as text `trial-3.attempt-1.worker-0.stdout`. Jobs without hyperparameters omit the first
/// part; their installer's output is `attempt-0.packages.stdout`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName {
    pub trial: Option<u64>,
    pub attempt: u64,
    /// Replica, such as `master-0`, `worker-1`, `ps-0` or `evaluator-0`, or [`PACKAGES`].
    pub task: String,
    pub stream: LogStream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogStream {
    Stderr,
    Stdout,
}

impl LogStream {
    /// Returns `stdout` or `stderr`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trial) = self.trial {
            write!(f, "trial-{trial}.")?;
        }
        write!(f, "attempt-{}.{}.{}", self.attempt, self.task, self.stream.as_str())
    }
}

impl FromStr for LogName {
    /// Description of the expected form.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let parts: Vec<&str> = text.split('.').collect();
            let (trial, [attempt, task, stream]) = match parts[..] {
                [trial, attempt, task, stream] => (Some(after(trial, "trial-")?), [attempt, task, stream]),
                [attempt, task, stream] => (None, [attempt, task, stream]),
                _ => return None,
            };
            let stream = [LogStream::Stderr, LogStream::Stdout].into_iter().find(|known| known.as_str() == stream)?;
            let attempt = after(attempt, "attempt-")?;
            let name = Self { trial, attempt, task: task.to_owned(), stream };
            Self::is_task(task).then_some(name)
        };
        parse().ok_or("the name of a log has the form trial-3.attempt-1.master-0.stdout")
    }
}

impl LogName {
    /// Output of the installer of a job's packages.
    pub fn packages() -> Self {
        Self::packages_of(None, 0)
    }

    /// Output of the installer of the agent that runs `attempt`, from 1.
    pub fn packages_of(trial: Option<u64>, attempt: u64) -> Self {
        Self { trial, attempt, task: PACKAGES.to_owned(), stream: LogStream::Stdout }
    }

    /// Whether `text` is a replica or [`PACKAGES`].
    pub fn is_task(text: &str) -> bool {
        text == MASTER || text == PACKAGES || ROLES.iter().any(|role| after(text, role).is_some())
    }
}

/// Parses the number after `prefix`.
fn after(text: &str, prefix: &str) -> Option<u64> {
    canonical_number(text.strip_prefix(prefix)?)
}

/// Parses a decimal number without sign or leading zeros; `None` for any other text.
pub fn canonical_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|parsed: &u64| parsed.to_string() == text)
}
