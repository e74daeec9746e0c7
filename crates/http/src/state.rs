//! The states that handlers share.

use std::path::PathBuf;
use std::sync::Arc;

use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_service::clock::Clock;
use tunesmith_service::jobs::Jobs;
use tunesmith_service::packages::Packages;
use tunesmith_service::studies::Studies;

/// The state of the handlers of jobs.
#[derive(Clone)]
pub(super) struct JobsState {
    pub(super) jobs: Arc<Jobs>,
    pub(super) packages: Packages,
    /// What the names of machines in jobs mean.
    pub(super) machines: Arc<MachineMap>,
    /// The folder against which relative paths of jobs are resolved.
    pub(super) working_directory: PathBuf,
}

/// The state of the handlers of studies, trials and operations.
#[derive(Clone)]
pub(super) struct StudiesState {
    pub(super) studies: Arc<Studies>,
    pub(super) clock: Arc<dyn Clock>,
}
