//! Why a store does not do what it was asked.

use std::path::PathBuf;

use tunesmith_domain::{StudyId, TransitionError, TrialId};

/// What went wrong, by what the caller can do. Whether the change was made: [`StoreError::is_certainly_not_applied`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such thing.
    #[error("{resource} does not exist")]
    NotFound {
        /// Such as `job census_1` or `trial 7 of study s`.
        resource: String,
    },
    /// A thing of that name is there already.
    #[error("{resource} already exists")]
    AlreadyExists {
        /// Such as `job census_1`.
        resource: String,
    },
    /// Another caller has added a trial in between: suggest again.
    #[error("study {study} expects trial {next} next")]
    TrialIdTaken {
        /// The study.
        study: StudyId,
        /// The number that the next trial must bear.
        next: TrialId,
    },
    /// The domain's rules do not allow the change.
    #[error(transparent)]
    Refused(#[from] TransitionError),
    /// Stored bytes are not what was written.
    #[error("{path} is damaged: {detail}")]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What was found, and what can be done.
        detail: String,
    },
    /// Stored by a version of this program that this one does not know.
    #[error("{path} has format version {found}, this program reads up to {known}; use the program that wrote it")]
    TooNew {
        /// The file or folder.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// The medium failed before the change was committed.
    #[error("the store could not {operation}")]
    NotApplied {
        /// What was being done.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The medium failed while the change was being committed; it may or may not be there after a restart.
    #[error("the store failed while it committed; whether the change was kept is not known")]
    Unknown {
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Whether the change was certainly not made, so that trying again cannot make it twice.
    pub fn is_certainly_not_applied(&self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }
}
