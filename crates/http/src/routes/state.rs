use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use tunesmith_admission::AccessControl;
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_jobs::Jobs;
use tunesmith_jobs::packages::Packages;
use tunesmith_jobs::{AgentReports, TrialReports};
use tunesmith_prediction::Models;
use tunesmith_studies::Studies;
use tunesmith_studies::clock::Clock;

/// Resolves the machine names in jobs, until it is replaced.
pub type SharedMachines = Arc<RwLock<Arc<MachineMap>>>;

pub(crate) struct Api {
    pub(crate) studies: Arc<Studies>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) models: Models,
    pub(crate) packages: Packages,
    pub(crate) machines: SharedMachines,
    /// Base folder for relative paths in jobs.
    pub(crate) working_directory: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) control: Arc<AccessControl>,
}

/// Use cases of job programs and their agents.
#[derive(Clone)]
pub(crate) struct Programs {
    pub(crate) reports: TrialReports,
    pub(crate) agents: AgentReports,
}
