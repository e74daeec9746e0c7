//! Classification of `sbatch` errors.

use crate::command::CommandError;

/// A rejected submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Slurm is unreachable or did not respond. The job may exist.
    Unreachable(String),
    /// Limit on submitted jobs; a later submission may succeed.
    Limit(String),
    /// Permanent: the job can never run as described. The text contains the remedy.
    Invalid(String),
    Other(String),
}

/// Messages about an unreachable or unresponsive controller.
const UNREACHABLE: &[&str] = &[
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "Communication connection failure",
    "communications error",
    "Transport endpoint",
    "Protocol authentication error",
    "Invalid authentication credential",
    "configuration source",
    "controller is in standby mode",
    "Slurm backup controller",
];

/// Messages about job count limits.
const LIMITS: &[&str] = &[
    "MaxSubmit",
    "GrpSubmit",
    "temporarily unable to accept job",
    "Rate limit exceeded",
    "Resource temporarily unavailable",
    "Job violates accounting/QOS policy",
];

/// Names of limits that this job always exceeds, in messages that also contain the policy.
const SIZE_LIMITS: &[&str] = &["PerJob", "MaxWall", "MinCpus", "MinGRES", "MinTRES", "MaxNodes", "MaxTRESMins"];

/// Messages about permanent errors, with their remedies.
const INVALID: &[(&str, &str)] = &[
    ("artition name", "list the partitions with sinfo, and correct the partition"),
    ("nvalid partition", "list the partitions with sinfo, and correct the partition"),
    ("node configuration is not available", ASK_LESS),
    ("Memory specification can not be satisfied", ASK_LESS),
    ("More processors requested than permitted", ASK_LESS),
    ("Node count specification invalid", ASK_LESS),
    ("generic resource", "list the resources of the nodes with sinfo -o '%N %G', and correct the accelerators"),
    ("gres", "list the resources of the nodes with sinfo -o '%N %G', and correct the accelerators"),
    ("feature specification", "list the features of the nodes with sinfo -o '%N %f', and correct the constraint"),
    ("nvalid account", "list your accounts with sacctmgr show associations user=$USER, and correct the account"),
    ("nvalid qos", "list the QOS of your account with sacctmgr show associations user=$USER, and correct the QOS"),
    ("nrecognized option", "correct the additional options of sbatch"),
    ("nvalid option", "correct the additional options of sbatch"),
    ("requires an argument", "correct the additional options of sbatch"),
    ("nvalid numeric value", "correct the additional options of sbatch"),
    ("time limit is invalid", "give a time limit that the partition allows (scontrol show partition)"),
    ("group not permitted", "use a partition that your groups may use (scontrol show partition)"),
    ("not permitted to use", "use a partition that your account may use (scontrol show partition)"),
    ("Access/permission denied", "ask the administrators of the cluster for access"),
    ("nvalid node name", "list the nodes with sinfo -N, and correct the selection of nodes"),
    ("nvalid dependency", "correct the additional options of sbatch"),
    ("reservation is invalid", "list the reservations with scontrol show reservation"),
];

const ASK_LESS: &str =
    "ask for no more cpus, memory and GPUs than one node of the partition has (sinfo -N -o '%N %c %m %G')";

impl Refusal {
    pub(crate) fn of(error: &CommandError) -> Self {
        let message = error.to_string();
        let CommandError::Failed { .. } = error else { return Self::Unreachable(message) };
        let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
        if has(UNREACHABLE) {
            return Self::Unreachable(message);
        }
        if has(SIZE_LIMITS) {
            return Self::Invalid(format!("{message}: ask for less, or use another QOS or account"));
        }
        if has(LIMITS) {
            return Self::Limit(message);
        }
        match INVALID.iter().find(|(part, _)| message.contains(part)) {
            Some((_, advice)) => Self::Invalid(format!("{message}: {advice}")),
            None => Self::Other(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> Refusal {
        Refusal::of(&CommandError::Failed { message: message.to_owned() })
    }

    #[test]
    fn limits_on_the_number_of_jobs_are_waited_for() {
        let policy = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size \
                      and/or time limits)";
        for limit in ["QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit", "AssocGrpSubmitJobsLimit"] {
            assert!(matches!(of(&format!("{limit}; {policy}")), Refusal::Limit(_)), "{limit}");
        }
        assert!(matches!(of(policy), Refusal::Limit(_)));
        assert!(matches!(of("Slurm temporarily unable to accept job, sleeping and retrying"), Refusal::Limit(_)));
        assert!(matches!(of(&format!("QOSMaxCpuPerJobLimit; {policy}")), Refusal::Invalid(_)));
    }

    #[test]
    fn lost_connection_is_no_refusal() {
        let message = "Batch job submission failed: Unable to contact slurm controller (connect failure)";
        assert_eq!(of(message), Refusal::Unreachable(message.to_owned()));
        let timed_out = CommandError::TimedOut { program: "sbatch".into() };
        assert!(matches!(Refusal::of(&timed_out), Refusal::Unreachable(_)));
    }

    #[test]
    fn impossible_requests_say_what_to_do() {
        for (message, advice) in [
            ("Batch job submission failed: Requested node configuration is not available", "than one node"),
            ("invalid partition specified: x; Batch job submission failed: Invalid partition name specified", "sinfo"),
            ("Batch job submission failed: Invalid feature specification", "features"),
            ("unrecognized option '--nonsense'; Try \"sbatch --help\" for more information", "additional options"),
        ] {
            let Refusal::Invalid(text) = of(message) else { panic!("{message}") };
            assert!(text.starts_with(message) && text.contains(advice), "{text}");
        }
        assert!(matches!(of("something else"), Refusal::Other(_)));
    }
}
