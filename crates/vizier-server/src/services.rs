//! Services, context and replies of handlers.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use tunesmith_admission::{AccessControl, Admission};
use tunesmith_api::ai_platform::machines::MachineMap;
use tunesmith_jobs::Jobs;
use tunesmith_jobs::packages::Packages;
use tunesmith_studies::Studies;
use tunesmith_studies::clock::Clock;
use tunesmith_vizier::Version;

/// Use cases behind the protocols.
pub struct Services {
    /// Studies with client-run trials.
    pub studies: Arc<Studies>,
    pub jobs: Arc<Jobs>,
    pub packages: Packages,
    pub machines: Arc<RwLock<Arc<MachineMap>>>,
    /// Working directory of programs.
    pub working_directory: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub control: Arc<AccessControl>,
}

/// Context of an admitted call.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) services: Arc<Services>,
    pub(crate) admission: Admission,
    /// Version of the API that the call is one of.
    pub(crate) version: Version,
}

impl Context {
    pub(crate) fn studies(&self) -> &Arc<Studies> {
        &self.services.studies
    }

    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        &self.services.jobs
    }
}

/// Response to a call.
pub(crate) struct Reply<T> {
    pub(crate) message: T,
    /// Name of the created resource, for the audit log.
    pub(crate) created: Option<String>,
    /// Parts of the request without effect, or with another one; for a header.
    pub(crate) notices: Vec<String>,
}

impl<T> Reply<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { message: change(self.message), created: self.created, notices: self.notices }
    }
}

impl<T> From<T> for Reply<T> {
    fn from(message: T) -> Self {
        Self { message, created: None, notices: Vec::new() }
    }
}
