use std::io;
use std::path::{Path, PathBuf};

use super::{Holder, StoreKind};
use tunesmith_store::StoreError;

/// A data folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has the folder open: wait for it, stop it, address it, or use another folder.
    #[error("data folder {path} is in use by {holder}; {}", holder.ways_out())]
    InUse { path: PathBuf, holder: Holder },
    /// Another process has the folder open, and its store cannot be read meanwhile.
    #[error(
        "data folder {path} is in use by {holder}, and its store, sled, can be open in one process only; {}",
        holder.ways_to_read()
    )]
    SledInUse { path: PathBuf, holder: Holder },
    #[error(
        "data folder {path} contains a store of kind {holds}, not {requested}: use --store {holds}, or another folder"
    )]
    OtherKind { path: PathBuf, holds: StoreKind, requested: StoreKind },
    #[cfg(feature = "postgres")]
    #[error(
        "data folder {path} belongs to the database {noted}, which is not the one at {requested}: use that database, or \
         another folder"
    )]
    OtherDatabase { path: PathBuf, noted: String, requested: String },
    #[cfg(feature = "postgres")]
    #[error("the database of data folder {path} is not known: give its address in TUNESMITH_STORE")]
    DatabaseAddress {
        path: PathBuf,
        #[source]
        source: tunesmith_store::DatabaseAddressError,
    },
    /// Built without this store: enable the cargo feature of that name, or use another kind.
    #[error("this program was built without the store {kind}: build it with `--features {kind}`")]
    NotBuilt { kind: StoreKind },
    /// The folder is missing or contains no store.
    #[error("there is no store in data folder {path}; give the data folder of a job or a server with --data-dir")]
    NoStore { path: PathBuf },
    /// The store marker is damaged or from a later version.
    #[error(
        "{path} contains {found:?}, which this version does not support; use the version that wrote it, or restore the file"
    )]
    UnknownMarker { path: PathBuf, found: String },
    #[error("{path} exists and is not empty: give a new folder")]
    NotEmpty { path: PathBuf },
    #[error("{to} is inside {from}: give a folder outside of it")]
    Inside { from: PathBuf, to: PathBuf },
    /// The store cannot be backed up with the folder.
    #[error(
        "the store of data folder {path} is a PostgreSQL database, which has backups of its own (pg_dump); to copy it to another \
         kind of store, use tunesmith store copy"
    )]
    InDatabase { path: PathBuf },
    #[error("{path} is no backup: {reason}")]
    NotABackup { path: PathBuf, reason: String },
    #[error("{path} in the backup {backup} {reason}; nothing was restored")]
    DamagedBackup { backup: PathBuf, path: PathBuf, reason: &'static str },
    #[error(transparent)]
    Copy(#[from] tunesmith_store::CopyError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {operation} {path}")]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl DataDirError {
    /// Adds the operation and path to an IO error.
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
