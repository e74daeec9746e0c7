//! Why a data folder cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use super::{Holder, StoreKind};
use tunesmith_store::StoreError;

/// What went wrong, by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has it open: wait for it, end it, or use another folder.
    #[error("data folder {path} is in use by {holder}")]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who that is.
        holder: Holder,
    },
    /// It holds a store of another kind than was asked for.
    #[error("data folder {path} holds a store of kind {holds}, not {asked}: use --store {holds}, or another folder")]
    OtherKind {
        /// The folder.
        path: PathBuf,
        /// The kind it holds.
        holds: StoreKind,
        /// The kind asked for.
        asked: StoreKind,
    },
    /// This program was built without the store: build it with the cargo feature of that name, or use another kind.
    #[error("this program was built without the store {kind}: build it with `--features {kind}`")]
    NotBuilt {
        /// The kind asked for.
        kind: StoreKind,
    },
    /// There is nothing to look at.
    #[error("there is no store in data folder {path}")]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// The file that says which store the folder holds cannot be understood: it is damaged, or of a later version.
    #[error("{path} says {found:?}, which this program does not know; use the program that wrote it, or restore it")]
    UnknownMarker {
        /// The file.
        path: PathBuf,
        /// Its content.
        found: String,
    },
    /// The store refuses to open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system refuses.
    #[error("cannot {operation} {path}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl DataDirError {
    /// Names what was being done when an input or output error came.
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
