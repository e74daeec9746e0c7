//! Default store: a single SQLite file, in which every acknowledged change is durable.
//!
//! Uses a write-ahead log with `synchronous=FULL`. One writer thread applies all changes in group commits ([`writer`]).
//! Reads have their own connections, off the async runtime. Any SQLite tool can read the tables of an open store:
//! bodies are JSON, only measurements are binary.

mod backup;
mod error;
mod health;
mod presence;
mod readers;
mod records;
mod recovery;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::acknowledged::Acknowledged;
use super::engine::{Changes, Engine, Ranges, Scope};
use super::{Condition, OpenMode, StoreError};
use crate::decoded_studies::DecodedStudies;
use crate::file_lock::FileLock;
pub use backup::back_up;
use health::Health;
use presence::Presence;
use readers::Readers;
use recovery::Recovery;
use writer::Writer;

/// A [`super::Store`] in an SQLite file.
///
/// Dropping it waits for pending commits and merges the write-ahead log into the file.
#[derive(Debug)]
pub struct SqliteStore {
    readers: Arc<Readers>,
    writer: Option<Writer>,
    health: Arc<Health>,
    condition: watch::Receiver<Condition>,
}

impl SqliteStore {
    /// Opens the store in the file `path`. Blocks; call it off the async runtime.
    ///
    /// With a read-only medium, the store is readable and [`super::Store::condition`] is failing.
    ///
    /// After an unclean shutdown, the store recovers from its write-ahead log and its structure is checked: before this
    /// function returns if the file is small, otherwise in the background. Once damage is found, every call fails with
    /// it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a file that is damaged or no store, and in [`OpenMode::Existing`] for a missing or
    /// empty one. [`StoreError::TooNew`], [`StoreError::BeforeRelease`]. [`StoreError::InUse`].
    /// [`StoreError::NotApplied`] if the file cannot be read or written.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        schema::check_presence(path, mode)?;
        let lock = FileLock::take(path, mode)?;
        schema::check_header(path, lock.file())?;
        let unclean = health::was_left_open(path);
        let connection = schema::open_for_writing(path, mode)?;
        let health = Health::check(path, unclean)?;
        let decoded = Arc::<DecodedStudies>::default();
        let readers = Arc::new(Readers::new(path, Arc::clone(&decoded), Some(Arc::clone(&lock))));
        let acknowledged = Acknowledged::open(&beside(path, "-acknowledged"))?;
        let count = schema::commit_count(&connection).map_err(|source| error::not_applied(path, "read", source))?;
        acknowledged.check(path, count)?;
        let (sender, condition) = watch::channel(Condition::Working);
        let mut recovery = Recovery::new(path, Arc::clone(&health), sender);
        recovery.check_writing(&connection, &acknowledged)?;
        let presence =
            Presence::new(path, lock).map_err(|source| StoreError::not_applied_io("find its files", source))?;
        let writer = Writer::start(connection, path, acknowledged, decoded, recovery, presence)?;
        Ok(Self { readers, writer: Some(writer), health, condition })
    }

    /// Opens an existing store for reading, even if another process has it open for writing. Blocks; call it off the
    /// async runtime.
    ///
    /// # Errors
    /// As [`Self::open`] in [`OpenMode::Existing`]. Changing calls return [`StoreError::NotApplied`].
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        schema::check_presence(path, OpenMode::Existing)?;
        let readers = Readers::new(path, Arc::default(), None);
        readers.put_back(schema::open_for_reading(path)?);
        let (_, condition) = watch::channel(Condition::Working);
        Ok(Self { readers: Arc::new(readers), writer: None, health: Arc::default(), condition })
    }
}

/// `path` with `suffix` appended.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Engine for SqliteStore {
    // One thread applies all changes, in channel order.
    const KEEPS_ORDER: bool = true;

    fn condition(&self) -> watch::Receiver<Condition> {
        self.condition.clone()
    }

    async fn write<T: Send + 'static>(
        &self,
        _scope: Scope,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.ok()?;
        match &self.writer {
            Some(writer) => writer.write(change).await,
            None => Err(StoreError::NotApplied { operation: "write", source: "it was opened for reading only".into() }),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.ok()?;
        self.readers.read(query).await
    }

    async fn lookup<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.ok()?;
        self.readers.lookup(query)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection to close merges the log into the file, so that must be the writer's.
        self.readers.close();
    }
}
