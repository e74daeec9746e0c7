//! Machines of a job: its machine request, resolved against the server's configuration.
//!
//! Resolution takes place at submission and is stored with the job's plan, so later configuration changes do not affect
//! the job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Resources;

/// Training input field with the job to continue.
pub const RESUME_PREVIOUS_JOB: &str = "hyperparameters.resumePreviousJobId";

/// Machines of a job. By default, no resources are requested and the executor chooses the placement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachinePlan {
    /// Resources of the master.
    pub resources: Resources,
    /// Name of the executor; `None` for the server's default.
    pub executor: Option<String>,
    /// Queue of the executor, such as a partition or namespace.
    pub queue: Option<String>,
    /// Further placement options of the executor.
    pub options: BTreeMap<String, String>,
    /// Python interpreter of the program; `None` for `python3` on the `PATH`.
    pub python: Option<PathBuf>,
    /// Notices about machine fields without effect, and about trials taken over from the continued job.
    pub notices: Vec<MachineNotice>,
}

/// Effect of a field that depends on the server's machines or on earlier trials, determined at submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineNotice {
    /// Path of the field in the training input.
    pub field: String,
    /// Description of the server's behaviour.
    pub description: String,
}
