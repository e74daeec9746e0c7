//! The machines of a job: what the names of its request mean on the server that took it.
//!
//! A machine plan is resolved when the job is submitted, and is part of its plan: a later change of the server's
//! configuration does not change the machines of the job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Resources;

/// The field of the training input that names the job to continue.
pub const RESUME_PREVIOUS_JOB: &str = "hyperparameters.resumePreviousJobId";

/// The machines of a job. The default requests nothing and leaves the place to the executor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachinePlan {
    /// The resources of the master.
    pub resources: Resources,
    /// Name of the executor; `None` for that of the server.
    pub executor: Option<String>,
    /// A queue of the executor, such as a partition or namespace.
    pub queue: Option<String>,
    /// Further settings of the executor.
    pub options: BTreeMap<String, String>,
    /// The Python interpreter of the program; `None` for `python3` on the `PATH`.
    pub python: Option<PathBuf>,
    /// Effects that fields for machines lack, and trials that the job takes over from the one that it continues.
    pub notices: Vec<MachineNotice>,
}

/// A field whose effect was decided when the job was submitted: on the machines of the server, or on earlier trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineNotice {
    /// Path of the field in the training input.
    pub field: String,
    /// What the server does.
    pub description: String,
}
