#![doc = include_str!("../README.md")]

mod backup;
#[cfg(feature = "postgres")]
mod database;
mod error;
mod files;
mod lock;
mod manifest;
mod marker;
mod new_folder;
mod origin;
mod private;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::OnceCell;

use tunesmith_domain::JobId;
#[cfg(any(feature = "sled", feature = "sqlite"))]
use tunesmith_store::OpenMode;
#[cfg(feature = "postgres")]
use tunesmith_store::{DatabaseAddress, PostgresStore};
use tunesmith_store::{Store, StoreError};

pub use backup::{back_up, copy_store, restore};
pub use error::DataDirError;
pub use files::FilesCopied;
pub use lock::Holder;
use lock::Lock;
pub use origin::Original;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// One SQLite file; the default.
    #[default]
    Sqlite,
    /// A sled folder.
    Sled,
    /// A PostgreSQL database. The folder contains only local files.
    Postgres,
}

impl StoreKind {
    const ALL: [Self; 3] = [Self::Sqlite, Self::Sled, Self::Postgres];

    /// Name on the command line and in the marker.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Sled => "sled",
            Self::Postgres => "postgres",
        }
    }

    /// File name in the data folder; `None` for a store outside it.
    fn file_name(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("store.sqlite"),
            Self::Sled => Some("store.sled"),
            Self::Postgres => None,
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

/// An unknown [`StoreKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind:?} is not a kind of store: expected sqlite, sled, or the address of a database: postgres://USER@HOST:PORT/DATABASE"
)]
pub struct UnknownStoreKind {
    pub kind: String,
}

/// Location of a folder's store.
#[derive(Debug, Clone)]
pub enum StoreSource {
    /// In the folder, or for [`StoreKind::Postgres`], in the database that the folder names.
    Folder(StoreKind),
    #[cfg(feature = "postgres")]
    Database(Box<DatabaseAddress>),
}

impl From<StoreKind> for StoreSource {
    fn from(kind: StoreKind) -> Self {
        Self::Folder(kind)
    }
}

impl StoreSource {
    pub fn kind(&self) -> StoreKind {
        match self {
            Self::Folder(kind) => *kind,
            #[cfg(feature = "postgres")]
            Self::Database(_) => StoreKind::Postgres,
        }
    }
}

/// An open data folder, locked by [`Self::open`] until dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    source: StoreSource,
    access: Access,
    store: OnceCell<StoreHandle>,
    /// The original, if this is a copy that has not been settled.
    original: Option<Original>,
    /// Last field: dropped after the store is closed.
    _lock: Option<Lock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Full,
    ReadOnly,
}

impl DataDir {
    /// Opens the folder `path` exclusively, creating it if necessary. `who` is the command line reported to competing
    /// processes.
    ///
    /// # Errors
    /// [`DataDirError::InUse`], [`DataDirError::OtherKind`] for a store of another kind,
    /// [`DataDirError::UnknownMarker`], [`DataDirError::Io`]. [`StoreError::BeforeRelease`], which leaves the folder
    /// unchanged.
    pub fn open(path: &Path, source: impl Into<StoreSource>, who: &str) -> Result<Self, DataDirError> {
        let source = source.into();
        let kind = source.kind();
        fs::create_dir_all(path).map_err(DataDirError::io("create", path))?;
        let path = path.canonicalize().map_err(DataDirError::io("find", path))?;
        // A rejected folder stays unchanged: not even a lock is written.
        check_form(&path)?;
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

    /// Opens an existing folder read-only. An SQLite store is readable while another process has it open; sled allows
    /// only one process, so the folder is locked as in [`Self::open`]. `who` is the command line.
    ///
    /// # Errors
    /// [`DataDirError::NoStore`] if the folder or its store is missing; [`DataDirError::SledInUse`],
    /// [`DataDirError::UnknownMarker`], [`DataDirError::Io`].
    pub fn open_read_only(path: &Path, who: &str) -> Result<Self, DataDirError> {
        let no_store = || DataDirError::NoStore { path: path.to_owned() };
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Err(no_store()),
            Err(source) => return Err(DataDirError::io("find", path)(source)),
        };
        let kind = marker::held_kind(&path)?.ok_or_else(no_store)?;
        let lock = match kind {
            StoreKind::Sqlite | StoreKind::Postgres => None,
            StoreKind::Sled => Some(Lock::take(&path, who).map_err(|error| match error {
                DataDirError::InUse { path, holder } => DataDirError::SledInUse { path, holder },
                other => other,
            })?),
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

    /// The store, opened by the first call. Drop it before the folder.
    ///
    /// # Errors
    /// [`DataDirError::Store`] if it cannot be opened, or is missing although the folder had one.
    pub async fn store(&self) -> Result<Arc<dyn Store>, DataDirError> {
        let open = async || {
            let (path, kind, access) = (self.path.clone(), self.kind(), self.access);
            #[cfg(feature = "postgres")]
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

    /// Opens the database named by the source or the folder.
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

    /// The open store, if it is in a database that other servers may share.
    #[cfg(feature = "postgres")]
    pub fn shared_store(&self) -> Option<Arc<PostgresStore>> {
        self.store.get().and_then(|handle| handle.database.clone())
    }

    /// Identity of the open store, if it is in a database that other servers may share.
    pub fn shared_identity(&self) -> Option<String> {
        #[cfg(feature = "postgres")]
        return self.shared_store().map(|store| store.identity().to_owned());
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Names the process that has the store open although this one holds the folder's lock.
    fn name_holder(&self, error: DataDirError) -> DataDirError {
        let DataDirError::Store(StoreError::InUse { path }) = error else { return error };
        let file = if path.is_dir() { path.join("db") } else { path };
        DataDirError::InUse { path: self.path.clone(), holder: Holder::of_file(&file) }
    }

    /// The original of this copy, until [`Self::settle`]. It may be in use.
    pub fn original(&self) -> Option<&Original> {
        self.original.as_ref()
    }

    /// Turns a copy into an independent folder, whose server gets a new identity.
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

    /// Absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kind(&self) -> StoreKind {
        self.source.kind()
    }

    /// Value of `--store` that opens the same store, without a password; `None` for the default.
    pub fn store_argument(&self) -> Option<String> {
        match (&self.source, self.kind()) {
            #[cfg(feature = "postgres")]
            (StoreSource::Database(address), _) => Some(address.to_string()),
            #[cfg(feature = "postgres")]
            (_, StoreKind::Postgres) => database::address_of(&self.path).ok().map(|address| address.to_string()),
            (_, kind) => (kind != StoreKind::default()).then(|| kind.to_string()),
        }
    }

    pub fn tokens(&self) -> PathBuf {
        tokens_of(&self.path)
    }

    pub fn audit(&self) -> PathBuf {
        audit_of(&self.path)
    }

    /// Storage of Optuna studies.
    pub fn optuna(&self) -> PathBuf {
        self.path.join(OPTUNA_FILE)
    }

    /// Folder of pending suggestions.
    pub fn suggestions(&self) -> PathBuf {
        self.path.join("suggestions")
    }

    /// Folder of the progress of exports.
    pub fn tracking(&self) -> PathBuf {
        self.path.join("tracking")
    }

    /// Folder of undelivered events and of the progress of webhooks.
    pub fn webhooks(&self) -> PathBuf {
        self.path.join("webhooks")
    }

    /// Folder of installed programs, each in a folder named by its content.
    pub fn environments(&self) -> PathBuf {
        self.path.join("environments")
    }

    /// Folder of deployed models.
    pub fn models(&self) -> PathBuf {
        self.path.join("models")
    }

    pub fn packages(&self) -> PathBuf {
        self.path.join("packages")
    }

    /// Folder of a job's files; may not exist.
    pub fn job(&self, job: &JobId) -> PathBuf {
        match job.parts() {
            (JobId::LOCAL_PROJECT, id) => self.path.join("jobs").join(id),
            (project, id) => self.path.join("projects").join(project).join("jobs").join(id),
        }
    }
}

/// Checks that this version supports the format of the data folder `path`, if it exists. Read-only.
///
/// # Errors
/// [`DataDirError::Store`] with [`StoreError::BeforeRelease`], [`DataDirError::UnknownMarker`], [`DataDirError::Io`].
pub fn check_form(path: &Path) -> Result<(), DataDirError> {
    marker::held_kind(path).map(|_| ())
}

const OPTUNA_FILE: &str = "optuna.sqlite";

/// File with the server's ID among those that share a database.
pub const SERVER_FILE: &str = "SERVER";

/// Access token file of the data folder `path`. May be changed while a server has the folder open.
pub fn tokens_of(path: &Path) -> PathBuf {
    path.join("tokens.json")
}

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
    /// Wraps a store that only this process changes.
    #[cfg(any(feature = "sled", feature = "sqlite"))]
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

#[cfg(not(any(feature = "sled", feature = "sqlite")))]
fn open_store(_: &Path, kind: StoreKind, _: Access) -> Result<StoreHandle, DataDirError> {
    Err(DataDirError::NotBuilt { kind })
}

#[cfg(any(feature = "sled", feature = "sqlite"))]
fn open_store(folder: &Path, kind: StoreKind, access: Access) -> Result<StoreHandle, DataDirError> {
    let path = folder.join(kind.file_name().unwrap_or_default());
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
        (kind, _) => return Err(DataDirError::NotBuilt { kind }),
    };
    if !known && access == Access::Full {
        marker::write(folder, kind)?;
    }
    Ok(StoreHandle::own(store))
}

#[cfg(test)]
mod tests;
