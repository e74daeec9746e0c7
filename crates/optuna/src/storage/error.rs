//! Failures of the storage, and their refusals.

use std::path::PathBuf;
use std::sync::Arc;

use tunesmith_domain::{Code, Refusal};

use crate::distribution::DistributionError;
use crate::wire::TrialState;

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    #[error("study {id} does not exist")]
    NoStudy { id: i64 },
    #[error("no study has the name {name:?}")]
    NoStudyOfName { name: String },
    #[error("trial {id} does not exist")]
    NoTrial { id: i64 },
    #[error("study {study} has no trial with the number {number}")]
    NoTrialOfNumber { study: i64, number: i64 },
    #[error("a study with the name {name:?} exists already")]
    NameTaken { name: String },
    #[error("trial {id} is finished ({}) and can no longer be changed", state.as_str_name())]
    Finished { id: i64, state: TrialState },
    /// The distribution of a parameter has another kind than that of the study's earlier trials.
    #[error("parameter {name:?}: its distribution has {difference}; earlier trials of the study have {first}")]
    OtherDistribution { name: String, difference: &'static str, first: String },
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("{what} {id} would have {size_bytes} bytes; the maximum is {maximum}")]
    RecordTooLarge { what: &'static str, id: i64, size_bytes: i64, maximum: i64 },
    #[error("the response would be larger than {maximum} bytes: {advice}")]
    ResponseTooLarge { maximum: usize, advice: &'static str },
    #[error("{path} was written by a later version (schema {found}, known up to {known}): use that version", path = path.display())]
    TooNew { path: PathBuf, found: i32, known: i32 },
    #[error("{path} is damaged or no storage of Optuna studies: {detail}", path = path.display())]
    Damaged { path: PathBuf, detail: String },
    /// The change was certainly not applied.
    #[error("the storage could not {operation}; nothing was changed")]
    NotApplied {
        operation: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The change may have been applied.
    #[error("the change could not be confirmed; it may have been applied")]
    Unknown {
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An earlier failure of the medium. Restart the server.
    #[error("the storage refuses changes until the server is restarted: {reason}")]
    Stopped { reason: Arc<str> },
}

impl StorageError {
    pub(crate) fn invalid(field: &'static str, reason: impl ToString) -> Self {
        Self::Invalid { field, reason: reason.to_string() }
    }

    pub(super) fn of_distribution(error: &DistributionError) -> Self {
        Self::invalid("distribution", error)
    }

    pub(super) fn not_applied(operation: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::NotApplied { operation, source: Arc::new(source) }
    }
}

/// For `?` in queries, whose failures have one message.
impl From<rusqlite::Error> for StorageError {
    fn from(source: rusqlite::Error) -> Self {
        Self::NotApplied { operation: "execute a statement", source: Arc::new(source) }
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        use StorageError::*;
        let code = match &error {
            NoStudy { .. } | NoStudyOfName { .. } | NoTrial { .. } | NoTrialOfNumber { .. } => Code::NotFound,
            NameTaken { .. } => Code::AlreadyExists,
            Finished { .. } => Code::FailedPrecondition,
            OtherDistribution { .. } | Invalid { .. } => Code::InvalidArgument,
            RecordTooLarge { .. } | ResponseTooLarge { .. } => Code::ResourceExhausted,
            TooNew { .. } | Damaged { .. } | NotApplied { .. } | Unknown { .. } | Stopped { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "a call of the Optuna storage failed");
                let text = match &error {
                    Unknown { .. } => "the change could not be confirmed; it may have been applied",
                    _ => "the storage failed, and nothing was changed; see the server's log",
                };
                return Self::new(Code::Unavailable, text);
            }
        };
        Self::new(code, error.to_string())
    }
}
