//! Rows of `squeue` in a custom format: the shape of `squeue --json` varies between releases.

use std::path::PathBuf;

/// Column separator. No column contains it, not even reasons and folders, which are free text.
const SEPARATOR: char = '\u{1f}';

pub(crate) const FORMAT: &str = "%i\u{1f}%T\u{1f}%k\u{1f}%j\u{1f}%Z\u{1f}%r";

/// Reason of a job that failed to launch and is held.
const NOT_LAUNCHED: &str = "launch failed";

/// A Slurm job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Job ID. Slurm may reuse it after a controller crash.
    pub(crate) job: String,
    pub(crate) state: SlurmState,
    /// Comment; may be empty.
    pub(crate) comment: String,
    pub(crate) name: String,
    /// Working directory: the attempt's folder.
    pub(crate) folder: PathBuf,
    /// Slurm's reason for waiting or ending.
    pub(crate) reason: String,
}

impl Row {
    /// Parses one line; `None` if malformed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(SEPARATOR).map(str::trim).collect();
        let [job, state, comment, name, folder, reason] = fields[..] else { return None };
        Some(Self {
            job: job.to_owned(),
            state: SlurmState::of(state),
            comment: if comment == "(null)" { String::new() } else { comment.to_owned() },
            name: name.to_owned(),
            folder: folder.into(),
            reason: reason.to_owned(),
        })
    }

    /// Whether the job failed to launch and is held; it never starts by itself.
    pub(crate) fn was_not_launched(&self) -> bool {
        self.state == SlurmState::Pending && self.reason.starts_with(NOT_LAUNCHED)
    }

    /// Whether the row belongs to the attempt with `token` and the job name `name`. A site may replace comments.
    pub(crate) fn is_of(&self, name: &str, token: &str) -> bool {
        self.name == name && (self.comment == token || self.comment.is_empty())
    }
}

#[cfg(test)]
impl Row {
    /// Row with the `|`-separated `columns`.
    pub(crate) fn of(columns: &str) -> Self {
        Self::parse(&columns.replace('|', "\u{1f}")).expect(columns)
    }
}

/// Job state, reduced to its meaning for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlurmState {
    /// Pending, initially or after a requeue.
    Pending,
    /// Allocated nodes that are not ready.
    Configuring,
    /// Running, suspended or completing: its processes may be alive.
    Active,
    /// The batch script ended by itself.
    Completed,
    /// The batch script failed, was killed by a signal, or failed to launch.
    Failed,
    /// Cancelled by anyone with `scancel`.
    Cancelled,
    /// Slurm's time limit.
    Timeout,
    /// Killed by the kernel at the memory limit.
    OutOfMemory,
    /// Preempted by a job of higher priority, or started by another cluster.
    Preempted,
    /// A node failed: processes may be alive.
    NodeFail,
    /// Its nodes failed to boot.
    BootFail,
    /// Could not finish before its deadline (`--deadline`).
    Deadline,
}

impl SlurmState {
    /// Maps a long state name. States of later releases count as active: no conclusion is drawn from them.
    fn of(name: &str) -> Self {
        match name {
            "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => Self::Pending,
            "CONFIGURING" => Self::Configuring,
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "CANCELLED" => Self::Cancelled,
            "TIMEOUT" => Self::Timeout,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "PREEMPTED" | "REVOKED" => Self::Preempted,
            "NODE_FAIL" => Self::NodeFail,
            "BOOT_FAIL" => Self::BootFail,
            "DEADLINE" => Self::Deadline,
            _ => Self::Active,
        }
    }

    pub(crate) fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Configuring | Self::Active)
    }

    /// Whether Slurm has confirmed the end of all processes. A lost node is not a dead process.
    pub(crate) fn has_no_process(self) -> bool {
        self.is_final() && self != Self::NodeFail
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Configuring => "CONFIGURING",
            Self::Active => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Timeout => "TIMEOUT",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::Preempted => "PREEMPTED",
            Self::NodeFail => "NODE_FAIL",
            Self::BootFail => "BOOT_FAIL",
            Self::Deadline => "DEADLINE",
        }
    }
}

/// Pending reasons, explained in the words of squeue(1).
const EXPLANATIONS: &[(&str, &str)] = &[
    ("Priority", "jobs with a higher priority wait before it"),
    ("Resources", "the resources are in use by other jobs"),
    ("None", "the scheduler has not considered it yet"),
    ("BeginTime", "its earliest start time is not reached"),
    ("PartitionDown", "the partition is down"),
    ("PartitionInactive", "the partition is inactive"),
    ("PartitionNodeLimit", "it asks for more nodes than the partition allows"),
    ("PartitionTimeLimit", "it asks for more time than the partition allows"),
    ("PartitionConfig", "no node of the partition has what it asks for"),
    ("BadConstraints", "no node can meet its constraints"),
    ("JobHeldUser", "it is held: release it with scontrol release"),
    ("JobHeldAdmin", "an administrator holds it"),
    ("Reservation", "its reservation has not started"),
    ("ReqNodeNotAvail", "a node that it asks for is not available"),
    ("Licenses", "its licences are in use"),
    ("NodeDown", "a node that it asks for is down"),
];

/// Slurm's reason with an explanation, such as `Priority (jobs with a higher priority wait before it)`.
pub(crate) fn explained(reason: &str) -> String {
    let word = reason.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let explanation = match EXPLANATIONS.iter().find(|(name, _)| *name == word) {
        Some((_, explanation)) => explanation,
        None if word.starts_with("QOS") => "a limit of the QOS",
        None if word.starts_with("Assoc") => "a limit of the account",
        None => return reason.to_owned(),
    };
    format!("{reason} ({explanation})")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rows_are_parsed_with_any_reason() {
        let row = Row::of("17|PENDING|tok|ts-a|/a folder|ReqNodeNotAvail, UnavailableNodes:n[1-2]");
        assert_eq!((row.job.as_str(), row.state, row.name.as_str()), ("17", SlurmState::Pending, "ts-a"));
        assert_eq!(row.folder, Path::new("/a folder"));
        assert_eq!(row.reason, "ReqNodeNotAvail, UnavailableNodes:n[1-2]");
        assert!(!row.was_not_launched());
        assert_eq!(Row::of("18|RUNNING|(null)|x|/|None").comment, "");
        assert_eq!(Row::parse("slurm_load_jobs error"), None);
    }

    #[test]
    fn id_is_no_identity() {
        let row = Row::of("17|RUNNING|other|ts-a|/|None");
        assert!(!row.is_of("ts-a", "tok") && row.is_of("ts-a", "other") && !row.is_of("ts-b", "other"));
        assert!(Row::of("17|RUNNING|(null)|ts-a|/|None").is_of("ts-a", "tok"));
    }

    #[test]
    fn completing_and_unknown_states_are_no_ends() {
        for name in ["COMPLETING", "RUNNING", "SUSPENDED", "STAGE_OUT", "OF_A_LATER_RELEASE", "PENDING", "CONFIGURING"]
        {
            assert!(!SlurmState::of(name).is_final(), "{name}");
        }
        for name in ["TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"] {
            assert!(SlurmState::of(name).is_final(), "{name}");
        }
        assert!(!SlurmState::of("NODE_FAIL").has_no_process());
    }

    #[test]
    fn reasons_are_explained() {
        assert_eq!(explained("Priority"), "Priority (jobs with a higher priority wait before it)");
        assert_eq!(explained("QOSMaxJobsPerUserLimit"), "QOSMaxJobsPerUserLimit (a limit of the QOS)");
        assert_eq!(explained("Nodes required for job are DOWN"), "Nodes required for job are DOWN");
    }
}
