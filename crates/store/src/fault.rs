//! Reasons why a store rejects writes, and whether it will recover.

#[cfg(feature = "sqlite")]
use std::fs::{self, File};
use std::io::{self, ErrorKind};
#[cfg(feature = "sqlite")]
use std::os::unix::fs::FileExt;
#[cfg(feature = "sqlite")]
use std::path::Path;

/// Why a store rejects writes. The text is public, including to clients: it contains no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    #[error("no space left on device")]
    NoSpace,
    #[error("disk quota exceeded")]
    QuotaExceeded,
    /// File size limit of the process (`ulimit -f`) or the file system.
    #[error("file too large: a limit on the size of files was reached")]
    FileTooLarge,
    /// The file system is read-only, possibly remounted after an error.
    #[error("read-only file system")]
    ReadOnly,
    /// Another write or sync failure.
    #[error("{detail}")]
    Failed { detail: String },
    /// The store's files are no longer those that were opened.
    #[error("{detail}")]
    NotTheSame {
        /// Affected file, its change, and advice.
        detail: String,
    },
}

/// Whether a store accepts changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Working,
    /// Changes fail. The store retries by itself and recovers with the medium.
    Failing(StoreFault),
    /// Changes fail until the store is reopened.
    Stopped(StoreFault),
}

impl Condition {
    pub fn fault(&self) -> Option<&StoreFault> {
        match self {
            Self::Working => None,
            Self::Failing(fault) | Self::Stopped(fault) => Some(fault),
        }
    }
}

impl From<&io::Error> for StoreFault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull => Self::NoSpace,
            ErrorKind::QuotaExceeded => Self::QuotaExceeded,
            ErrorKind::FileTooLarge => Self::FileTooLarge,
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            _ => Self::Failed { detail: error.to_string() },
        }
    }
}

impl StoreFault {
    /// Diagnoses the medium of `probe` for an engine that reports only `detail`. Obtains the system's own error by
    /// writing the file `probe` at `offset` (relevant for file size limits), syncing and removing it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn of_medium(probe: &Path, offset: u64, detail: impl Into<String>) -> Self {
        static BYTES: [u8; 64 * 1024] = [0x55; 64 * 1024];
        let write = || {
            let file = File::create(probe)?;
            file.write_all_at(&BYTES, offset)?;
            file.sync_all()
        };
        let written = write();
        let removed = fs::remove_file(probe);
        match (written, removed) {
            (Err(error), _) => Self::from(&error),
            (Ok(()), Err(error)) if error.kind() != ErrorKind::NotFound => Self::from(&error),
            (Ok(()), _) => Self::Failed { detail: detail.into() },
        }
    }
}
