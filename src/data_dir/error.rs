//! The errors of data folders.

use std::io;
use std::path::{Path, PathBuf};

use super::{Holder, StoreKind};
use tunesmith_store::StoreError;

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has the folder open: wait for it, end it, go through it, or use another folder.
    #[error("data folder {path} is in use by {holder}; {}", holder.ways_out())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process.
        holder: Holder,
    },
    /// The folder holds a store of another kind than requested.
    #[error(
        "data folder {path} contains a store of kind {holds}, not {requested}: use --store {holds}, or another folder"
    )]
    OtherKind {
        /// The folder.
        path: PathBuf,
        /// The kind in the folder.
        holds: StoreKind,
        /// The requested kind.
        requested: StoreKind,
    },
    /// The folder belongs to another database.
    #[cfg(feature = "postgres")]
    #[error(
        "data folder {path} belongs to the database {noted}, which is not the one at {requested}: use that database, or \
         another folder"
    )]
    OtherDatabase {
        /// The folder.
        path: PathBuf,
        /// The address of the folder's database.
        noted: String,
        /// The requested address.
        requested: String,
    },
    /// The address of the folder's database cannot be read.
    #[cfg(feature = "postgres")]
    #[error("the database of data folder {path} is not known: give its address in TUNESMITH_STORE")]
    DatabaseAddress {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: tunesmith_store::DatabaseAddressError,
    },
    /// This program was built without the store: build it with the cargo feature of that name, or use another kind.
    #[error("this program was built without the store {kind}: build it with `--features {kind}`")]
    NotBuilt {
        /// The requested kind.
        kind: StoreKind,
    },
    /// The folder does not exist, or contains no store.
    #[error("there is no store in data folder {path}; give the data folder of a job or a server with --data-dir")]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// The marker of the kind of store is damaged, or of a later version.
    #[error(
        "{path} contains {found:?}, which this version does not support; use the version that wrote it, or restore the file"
    )]
    UnknownMarker {
        /// The file.
        path: PathBuf,
        /// Its content.
        found: String,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system failed.
    #[error("cannot {operation} {path}")]
    Io {
        /// The failed operation.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl DataDirError {
    /// Returns a function that adds the operation and the path to an IO error.
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
