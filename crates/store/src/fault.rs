//! Why a store takes no changes, and whether it will take them again.

#[cfg(feature = "sqlite")]
use std::fs::{self, File};
use std::io::{self, ErrorKind};
#[cfg(feature = "sqlite")]
use std::os::unix::fs::FileExt;
#[cfg(feature = "sqlite")]
use std::path::Path;

/// Why a store takes no changes. The text is meant for people, clients included: it contains no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// The file system is full.
    #[error("no space left on device")]
    NoSpace,
    /// The quota of the user or of the folder is used up.
    #[error("disk quota exceeded")]
    QuotaExceeded,
    /// A limit on the size of a file was reached, of the process (`ulimit -f`) or of the file system.
    #[error("file too large: a limit on the size of files was reached")]
    FileTooLarge,
    /// The file system is mounted for reading only, or was made so after an error.
    #[error("read-only file system")]
    ReadOnly,
    /// A write or a sync failed for another reason.
    #[error("{detail}")]
    Failed {
        /// The message of the system or of the engine.
        detail: String,
    },
    /// The files of the store are no longer those that were opened.
    #[error("{detail}")]
    NotTheSame {
        /// What happened to which file, and the advice.
        detail: String,
    },
}

/// Whether a store takes changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It takes changes.
    Working,
    /// Changes fail. The store tries again by itself, and continues once the medium takes writes.
    Failing(StoreFault),
    /// Changes fail until the store is opened again.
    Stopped(StoreFault),
}

impl Condition {
    /// The fault, unless the store works.
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
    /// The fault of the medium of `probe`, for an engine that reports only `detail`. Writes to the file `probe` at
    /// `offset`, which limits on the size of files depend on, syncs and removes it to get the system's own error.
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
