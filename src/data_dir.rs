//! The data folder: its lock, its store, and the paths of its files.
//!
//! ```text
//! LOCK                                 the process that has the folder open
//! SERVER                               the ID of the server among those that share a database
//! STORE                                the kind of the store
//! FOLDER                               distinguishes the folder from its copies
//! store.sqlite or store.sled/          the store, unless it is in a database
//! DATABASE                             the address of the database that contains the store, without the password
//! jobs/<job>/trials/<id>/attempt-<n>/  files of one attempt; projects/<project>/jobs/... for other projects than
//! `local`
//! executions/<attempt>/                files of a supervisor
//! tokens.json, TOKENS                  the access tokens of a server on this folder; the marker that there are any
//! audit/                               the audit logs
//! suggestions/                         suggestions that clients wait for
//! environments/                        installed programs, by content
//! packages/<project>/<sha256>/         packages that clients have uploaded
//! local/<run>/                         files of one `local train`
//! ```

#[cfg(feature = "postgres")]
mod database;
mod error;
mod lock;
mod marker;
mod origin;
mod private;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::OnceCell;

use tunesmith_domain::JobId;
#[cfg(feature = "postgres")]
use tunesmith_store::{DatabaseAddress, PostgresStore};
use tunesmith_store::{MemoryStore, OpenMode, Store, StoreError};

pub use error::DataDirError;
pub use lock::Holder;
use lock::Lock;
pub use origin::Original;

/// The kinds of store that a folder may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One SQLite file; the default.
    #[default]
    Sqlite,
    /// A sled folder.
    Sled,
    /// In memory; lost with the process.
    Memory,
    /// In a PostgreSQL database. The folder contains only the files of this machine.
    Postgres,
}

impl StoreKind {
    const ALL: [Self; 4] = [Self::Sqlite, Self::Sled, Self::Memory, Self::Postgres];

    /// The name on the command line and in the marker.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Sled => "sled",
            Self::Memory => "memory",
            Self::Postgres => "postgres",
        }
    }

    /// The file name of the store in the data folder; `None` for a store that is not in the folder.
    fn file_name(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("store.sqlite"),
            Self::Sled => Some("store.sled"),
            Self::Memory | Self::Postgres => None,
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StoreKind {
    type Err = UnknownStoreKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or_else(|| UnknownStoreKind { kind: text.to_owned() })
    }
}

/// A text that is not the name of a [`StoreKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind:?} is not a kind of store: expected sqlite, sled, or the address of a database: postgres://USER@HOST:PORT/DATABASE"
)]
pub struct UnknownStoreKind {
    /// The text.
    pub kind: String,
}

/// Where the store of a folder is.
#[derive(Debug, Clone)]
pub enum StoreSource {
    /// In the folder; for [`StoreKind::Postgres`], in the database that the folder names.
    Folder(StoreKind),
    /// In this database.
    #[cfg(feature = "postgres")]
    Database(Box<DatabaseAddress>),
}

impl From<StoreKind> for StoreSource {
    fn from(kind: StoreKind) -> Self {
        Self::Folder(kind)
    }
}

impl StoreSource {
    /// Returns the kind of the store.
    pub fn kind(&self) -> StoreKind {
        match self {
            Self::Folder(kind) => *kind,
            #[cfg(feature = "postgres")]
            Self::Database(_) => StoreKind::Postgres,
        }
    }
}

/// An open data folder. [`Self::open`] locks it for this process until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    source: StoreSource,
    access: Access,
    store: OnceCell<StoreHandle>,
    /// The folder of which this one is a copy that no process has settled.
    original: Option<Original>,
    /// The last field, so that it is dropped after the store was closed.
    _lock: Option<Lock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Full,
    ReadOnly,
}

impl DataDir {
    /// Opens the folder `path` for this process alone, and creates it if it does not exist. `who` is the command line,
    /// which the error of other processes contains.
    ///
    /// # Errors
    /// [`DataDirError::InUse`], [`DataDirError::OtherKind`] if it holds a store of another kind,
    /// [`DataDirError::UnknownMarker`], [`DataDirError::Io`].
    pub fn open(path: &Path, source: impl Into<StoreSource>, who: &str) -> Result<Self, DataDirError> {
        let source = source.into();
        let kind = source.kind();
        fs::create_dir_all(path).map_err(DataDirError::io("create", path))?;
        let path = path.canonicalize().map_err(DataDirError::io("find", path))?;
        let lock = Lock::take(&path, who)?;
        private::make_private(&path).map_err(DataDirError::io("change the modes in", &path))?;
        if let Some(holds) = marker::held_kind(&path)?
            && holds != kind
        {
            return Err(DataDirError::OtherKind { path, holds, requested: kind });
        }
        let original = origin::of_copy(&path).map_err(DataDirError::io("write FOLDER in", &path))?;
        Ok(Self { path, source, access: Access::Full, store: OnceCell::new(), original, _lock: Some(lock) })
    }

    /// Opens an existing folder to read it. An SQLite store can be read while another process has it open; sled allows
    /// one process only, so the folder is locked as in [`Self::open`]. `who` is the command line.
    ///
    /// # Errors
    /// [`DataDirError::NoStore`] if there is no folder or it holds no store; [`DataDirError::InUse`] for a sled store
    /// that another process has open; [`DataDirError::UnknownMarker`], [`DataDirError::Io`].
    pub fn open_read_only(path: &Path, who: &str) -> Result<Self, DataDirError> {
        let no_store = || DataDirError::NoStore { path: path.to_owned() };
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Err(no_store()),
            Err(source) => return Err(DataDirError::io("find", path)(source)),
        };
        let kind = marker::held_kind(&path)?.ok_or_else(no_store)?;
        let lock = match kind {
            StoreKind::Sqlite | StoreKind::Memory | StoreKind::Postgres => None,
            StoreKind::Sled => Some(Lock::take(&path, who)?),
        };
        Ok(Self {
            path,
            source: kind.into(),
            access: Access::ReadOnly,
            store: OnceCell::new(),
            original: None,
            _lock: lock,
        })
    }

    /// Returns the store, which the first call opens. Drop the store before the folder.
    ///
    /// # Errors
    /// [`DataDirError::Store`] if it cannot be opened, or is missing although the folder had one.
    pub async fn store(&self) -> Result<Arc<dyn Store>, DataDirError> {
        let open = async || {
            let (path, kind, access) = (self.path.clone(), self.kind(), self.access);
            if kind == StoreKind::Postgres {
                return self.database().await;
            }
            let opening = tokio::task::spawn_blocking(move || open_store(&path, kind, access));
            let opened =
                opening.await.map_err(|source| DataDirError::io("open the store of", &self.path)(source.into()))?;
            opened.map_err(|error| self.name_holder(error))
        };
        Ok(Arc::clone(&self.store.get_or_try_init(open).await?.store))
    }

    /// The store in the database that the source or the folder names.
    #[cfg(feature = "postgres")]
    async fn database(&self) -> Result<StoreHandle, DataDirError> {
        let address = match &self.source {
            StoreSource::Database(address) => (**address).clone(),
            StoreSource::Folder(_) => database::address_of(&self.path)?,
        };
        let store = database::open(&self.path, &address).await?;
        if !marker::is_written(&self.path)? && self.access == Access::Full {
            marker::write(&self.path, StoreKind::Postgres)?;
        }
        let database = Arc::new(store);
        Ok(StoreHandle { store: Arc::clone(&database) as Arc<dyn Store>, database: Some(database) })
    }

    /// Returns the store if [`Self::store`] has opened it in a database, which other servers may use.
    #[cfg(feature = "postgres")]
    pub fn shared_store(&self) -> Option<Arc<PostgresStore>> {
        self.store.get().and_then(|handle| handle.database.clone())
    }

    /// Returns the identity of the store if [`Self::store`] has opened it in a database, which other servers may use.
    pub fn shared_identity(&self) -> Option<String> {
        #[cfg(feature = "postgres")]
        return self.shared_store().map(|store| store.identity().to_owned());
        #[cfg(not(feature = "postgres"))]
        None
    }

    #[cfg(not(feature = "postgres"))]
    async fn database(&self) -> Result<StoreHandle, DataDirError> {
        Err(DataDirError::NotBuilt { kind: StoreKind::Postgres })
    }

    /// The error of another process that has the store open although this one has the lock of the folder.
    fn name_holder(&self, error: DataDirError) -> DataDirError {
        let DataDirError::Store(StoreError::InUse { path }) = error else { return error };
        let file = if path.is_dir() { path.join("db") } else { path };
        DataDirError::InUse { path: self.path.clone(), holder: Holder::of_file(&file) }
    }

    /// Returns the folder of which this one is a copy, until [`Self::settle`] is called. The original may be in use.
    pub fn original(&self) -> Option<&Original> {
        self.original.as_ref()
    }

    /// Makes a copy a folder of its own. Its server becomes another one than that of the original.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn settle(&self) -> Result<(), DataDirError> {
        if self.original.is_none() {
            return Ok(());
        }
        let server = self.path.join(SERVER_FILE);
        match fs::remove_file(&server) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(DataDirError::io("remove", &server)(error));
            }
            _ => {}
        }
        origin::settle(&self.path).map_err(DataDirError::io("write FOLDER in", &self.path))
    }

    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind of its store.
    pub fn kind(&self) -> StoreKind {
        self.source.kind()
    }

    /// Returns the value of `--store` that opens the same store, without a password; `None` for the default.
    pub fn store_argument(&self) -> Option<String> {
        match (&self.source, self.kind()) {
            #[cfg(feature = "postgres")]
            (StoreSource::Database(address), _) => Some(address.to_string()),
            #[cfg(feature = "postgres")]
            (_, StoreKind::Postgres) => database::address_of(&self.path).ok().map(|address| address.to_string()),
            (_, kind) => (kind != StoreKind::default()).then(|| kind.to_string()),
        }
    }

    /// Returns the file of the access tokens.
    pub fn tokens(&self) -> PathBuf {
        tokens_of(&self.path)
    }

    /// Returns the folder of the audit logs.
    pub fn audit(&self) -> PathBuf {
        audit_of(&self.path)
    }

    /// Returns the folder of the suggestions that clients wait for.
    pub fn suggestions(&self) -> PathBuf {
        self.path.join("suggestions")
    }

    /// Returns the folder of the installed programs, each in a folder named by its content.
    pub fn environments(&self) -> PathBuf {
        self.path.join("environments")
    }

    /// Returns the folder of the packages that clients have uploaded.
    pub fn packages(&self) -> PathBuf {
        self.path.join("packages")
    }

    /// Returns the folder of the files of a job, which may not exist.
    pub fn job(&self, job: &JobId) -> PathBuf {
        match job.parts() {
            (JobId::LOCAL_PROJECT, id) => self.path.join("jobs").join(id),
            (project, id) => self.path.join("projects").join(project).join("jobs").join(id),
        }
    }
}

/// The file with the ID of the server among those that share a database.
pub(crate) const SERVER_FILE: &str = "SERVER";

/// Returns the file of the access tokens of the data folder `path`. It may be changed while a server has the folder
/// open.
pub fn tokens_of(path: &Path) -> PathBuf {
    path.join("tokens.json")
}

/// Returns the folder of the audit logs of the data folder `path`.
pub fn audit_of(path: &Path) -> PathBuf {
    path.join("audit")
}

struct StoreHandle {
    store: Arc<dyn Store>,
    /// The same store, if it is in a database.
    #[cfg(feature = "postgres")]
    database: Option<Arc<PostgresStore>>,
}

impl StoreHandle {
    /// A store that only this process changes.
    fn own(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            #[cfg(feature = "postgres")]
            database: None,
        }
    }
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreHandle")
    }
}

fn open_store(folder: &Path, kind: StoreKind, access: Access) -> Result<StoreHandle, DataDirError> {
    let Some(file_name) = kind.file_name() else {
        return Ok(StoreHandle::own(Arc::new(MemoryStore::new())));
    };
    let path = folder.join(file_name);
    // With a marker, a missing or empty store is damage, not a new folder.
    let known = marker::is_written(folder)?;
    let mode = if known { OpenMode::Existing } else { OpenMode::Create };
    let store: Arc<dyn Store> = match (kind, access) {
        #[cfg(feature = "sqlite")]
        (StoreKind::Sqlite, Access::ReadOnly) => Arc::new(tunesmith_store::SqliteStore::open_read_only(&path)?),
        #[cfg(feature = "sqlite")]
        (StoreKind::Sqlite, Access::Full) => Arc::new(tunesmith_store::SqliteStore::open(&path, mode)?),
        #[cfg(feature = "sled")]
        (StoreKind::Sled, _) => Arc::new(tunesmith_store::SledStore::open(&path, mode)?),
        (StoreKind::Memory | StoreKind::Postgres, _) => Arc::new(MemoryStore::new()),
        #[cfg(not(all(feature = "sqlite", feature = "sled")))]
        (kind, _) => return Err(DataDirError::NotBuilt { kind }),
    };
    if !known && access == Access::Full {
        marker::write(folder, kind)?;
    }
    Ok(StoreHandle::own(store))
}

#[cfg(test)]
mod tests;
