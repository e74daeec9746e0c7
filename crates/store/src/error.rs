//! Errors of stores.

use std::path::PathBuf;

use super::StoreFault;
use tunesmith_domain::{JobId, StudyId, TransitionError, TrialId};

/// An error of a store. [`StoreError::is_certainly_not_applied`] states whether a change may have been applied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The record does not exist.
    #[error("{resource} does not exist")]
    NotFound {
        /// Such as `job census_1` or `trial 7 of study s`.
        resource: String,
    },
    /// A record of that ID exists.
    #[error("{resource} already exists")]
    AlreadyExists {
        /// Such as `job census_1`.
        resource: String,
    },
    /// Another caller added a trial: suggest again.
    #[error("study {study} expects trial {next} next")]
    TrialIdTaken {
        /// The study.
        study: StudyId,
        /// The number of the next trial.
        next: TrialId,
    },
    /// Another server has taken the job over: leave it.
    #[error("job {job} is run by another server now")]
    NotOwner {
        /// The job.
        job: JobId,
    },
    /// The domain refuses the change.
    #[error(transparent)]
    Refused(#[from] TransitionError),
    /// Stored bytes differ from those that were written.
    #[error("{path} is damaged: {detail}")]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// The finding and the advice.
        detail: String,
    },
    /// Written by a later version of the program.
    #[error("{path} has format version {found}, this program reads up to {known}; use the program that wrote it")]
    TooNew {
        /// The file or folder.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// Another process has the store open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The medium failed before the commit.
    #[error("the store could not {operation}")]
    NotApplied {
        /// The operation, as a verb.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The medium failed during the commit; the change may or may not exist after a restart.
    #[error("the store failed while it committed; whether the change was kept is not known")]
    Unknown {
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the change is certainly not applied, so that a retry cannot apply it twice.
    pub fn is_certainly_not_applied(&self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }

    /// Why the store takes no changes, if that is the cause.
    pub fn fault(&self) -> Option<&StoreFault> {
        match self {
            Self::NotApplied { source, .. } | Self::Unknown { source } => source.downcast_ref(),
            _ => None,
        }
    }

    /// The error of a change that was not made because of `fault`.
    #[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
    pub(crate) fn not_applied(fault: StoreFault) -> Self {
        Self::cannot("write", fault)
    }

    /// The error of `operation`, which was not done because of `fault`.
    #[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
    pub(crate) fn cannot(operation: &'static str, fault: StoreFault) -> Self {
        Self::NotApplied { operation, source: Box::new(fault) }
    }

    /// The error of `operation`, which the system refused with `error`.
    #[cfg(any(feature = "sled", feature = "sqlite"))]
    pub(crate) fn not_applied_io(operation: &'static str, error: std::io::Error) -> Self {
        match StoreFault::from(&error) {
            StoreFault::Failed { .. } => Self::NotApplied { operation, source: error.into() },
            fault => Self::NotApplied { operation, source: Box::new(fault) },
        }
    }
}
