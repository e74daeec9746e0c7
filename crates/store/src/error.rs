use std::path::PathBuf;
use std::time::Duration;

use super::StoreFault;
use tunesmith_domain::{Code, JobId, Refusal, StudyId, TransitionError, TrialId};

/// Errors of stores. [`StoreError::is_certainly_not_applied`] states whether a change may have been applied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{resource} does not exist")]
    NotFound {
        /// Such as `job census_1` or `trial 7 of study s`.
        resource: String,
    },
    #[error("{resource} already exists")]
    AlreadyExists {
        /// Such as `job census_1`.
        resource: String,
    },
    /// Another caller added a trial: suggest again.
    #[error("study {study} expects trial {next} next")]
    TrialIdTaken { study: StudyId, next: TrialId },
    /// Another server has taken the job over: abandon it.
    #[error("job {job} is run by another server now")]
    NotOwner { job: JobId },
    #[error(transparent)]
    Refused(#[from] TransitionError),
    #[error("{path} is damaged: {detail}")]
    Damaged {
        path: PathBuf,
        /// Finding and advice.
        detail: String,
    },
    /// Written by a later version of the program.
    #[error("{path} has format version {found}, this program reads up to {known}; use the program that wrote it")]
    TooNew { path: PathBuf, found: u32, known: u32 },
    /// Written by a version before the first release.
    #[error(
        "{path} was written by a version before 0.1.0 ({found}), which this program does not read: use an empty data folder \
         or database, and export results with the program that wrote it"
    )]
    BeforeRelease {
        path: PathBuf,
        /// Format found.
        found: String,
    },
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    /// The medium failed before the commit.
    #[error("the store could not {operation}")]
    NotApplied {
        /// The operation, as a verb.
        operation: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The medium failed during the commit; the change may or may not exist after a restart.
    #[error("the store failed while it committed; whether the change was kept is not known")]
    Unknown {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Converts missing records to `None`.
pub trait OptionalExtension<T> {
    /// Maps [`StoreError::NotFound`] to `None`.
    fn optional(self) -> Result<Option<T>, StoreError>;
}

impl<T> OptionalExtension<T> for Result<T, StoreError> {
    fn optional(self) -> Result<Option<T>, StoreError> {
        match self {
            Ok(record) => Ok(Some(record)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl StoreError {
    /// Whether the change was certainly not applied, so that a retry cannot apply it twice.
    pub fn is_certainly_not_applied(&self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }

    /// Fault behind the error, if the store is rejecting writes.
    pub fn fault(&self) -> Option<&StoreFault> {
        match self {
            Self::NotApplied { source, .. } | Self::Unknown { source } => source.downcast_ref(),
            _ => None,
        }
    }

    #[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
    pub(crate) fn not_applied(fault: StoreFault) -> Self {
        Self::cannot("write", fault)
    }

    #[cfg(any(feature = "postgres", feature = "sled", feature = "sqlite"))]
    pub(crate) fn cannot(operation: &'static str, fault: StoreFault) -> Self {
        Self::NotApplied { operation, source: Box::new(fault) }
    }

    #[cfg(any(feature = "sled", feature = "sqlite"))]
    pub(crate) fn not_applied_io(operation: &'static str, error: std::io::Error) -> Self {
        match StoreFault::from(&error) {
            StoreFault::Failed { .. } => Self::NotApplied { operation, source: error.into() },
            fault => Self::NotApplied { operation, source: Box::new(fault) },
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<&StoreError> for Refusal {
    fn from(error: &StoreError) -> Self {
        if let Some(fault) = error.fault() {
            tracing::error!(error = error as &dyn std::error::Error, "the store takes no changes");
            let wait = Duration::from_secs(1);
            let refusal = Self::new(Code::Unavailable, format!("{error}: {fault}"));
            return Self { retry_after: Some(wait), ..refusal };
        }
        let code = match error {
            StoreError::NotFound { .. } => Code::NotFound,
            StoreError::AlreadyExists { .. } => Code::AlreadyExists,
            StoreError::TrialIdTaken { .. } | StoreError::NotOwner { .. } => Code::Aborted,
            StoreError::Refused(TransitionError::BadMeasurement { .. }) => Code::InvalidArgument,
            StoreError::Refused(TransitionError::Outdated { .. }) => Code::Aborted,
            StoreError::Refused(_) => Code::FailedPrecondition,
            StoreError::Damaged { .. }
            | StoreError::TooNew { .. }
            | StoreError::BeforeRelease { .. }
            | StoreError::InUse { .. }
            | StoreError::NotApplied { .. }
            | StoreError::Unknown { .. } => {
                tracing::error!(error = error as &dyn std::error::Error, "the store failed");
                return Self::new(Code::Internal, "the store failed; see the server's log");
            }
        };
        let is_lost =
            matches!(error, StoreError::Refused(TransitionError::Fenced { .. } | TransitionError::LeaseExpired { .. }));
        Self { reason: is_lost.then_some("TRIAL_LOST"), ..Self::new(code, error.to_string()) }
    }
}
