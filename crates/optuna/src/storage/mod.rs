//! Storage of Optuna studies in an SQLite file of its own, in which every acknowledged change is durable.
//!
//! Records are kept as Optuna sends them: JSON text verbatim, doubles with their bits. Uses a write-ahead log with
//! `synchronous=FULL`. One thread applies all changes in group commits ([`writer`]); reads have their own connections,
//! on blocking threads ([`readers`]).

mod deletion;
mod error;
mod readers;
mod schema;
mod studies;
#[cfg(test)]
mod tests;
mod trials;
mod writer;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

pub use error::StorageError;
use readers::{Extent, Readers};
pub(crate) use trials::Parameter;
use writer::Writer;

/// Owner of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributeKind {
    User = 0,
    /// Optuna itself: samplers, pruners, constraints.
    System = 1,
}

/// Open storage. Dropping it waits for pending commits.
///
/// One process may open a file at a time; the lock of the data folder ensures it.
#[derive(Debug)]
pub struct Storage {
    readers: Arc<Readers>,
    writer: Writer,
}

impl Storage {
    /// Opens or creates the file `path`, accessible only to its owner. Blocks; call it off the async runtime.
    ///
    /// # Errors
    /// [`StorageError::TooNew`], [`StorageError::Damaged`], or [`StorageError::NotApplied`] if the file cannot be read
    /// or written.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options
            .open(path)
            .map_err(|source| StorageError::NotApplied { operation: "open its file", source: Arc::new(source) })?;
        let writer = Writer::start(schema::open_for_writing(path)?, path)?;
        Ok(Self { readers: Readers::new(path), writer })
    }

    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.writer.write(change).await
    }

    async fn read<T: Send + 'static>(
        &self,
        extent: Extent,
        query: impl FnOnce(&Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.readers.read(extent, query).await
    }
}

/// `path` with `suffix` appended.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
