//! Read connections, and the blocking threads that use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{StorageError, schema};

/// Maximum number of concurrent reads; more would only wait for the processor or disk.
const MAX_READERS: usize = 8;

/// Maximum number of concurrent reads of many records, each of which may need the memory of several messages.
const MAX_LONG_READERS: usize = 2;

/// Connection pool, filled on demand.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    long_permits: Semaphore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One record.
    Record,
    /// Any number of records.
    List,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            permits: Semaphore::new(MAX_READERS),
            long_permits: Semaphore::new(MAX_LONG_READERS),
        })
    }

    /// Runs `query` on a blocking thread, in one read transaction.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        extent: Extent,
        query: impl FnOnce(&Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        const OPEN: &str = "the semaphore is never closed";
        let _long = match extent {
            Extent::List => Some(self.long_permits.acquire().await.expect(OPEN)),
            Extent::Record => None,
        };
        let _permit = self.permits.acquire().await.expect(OPEN);
        let readers = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || readers.read_blocking(query)).await;
        read.map_err(|source| StorageError::NotApplied { operation: "read", source: Arc::new(source) })?
    }

    fn read_blocking<T>(&self, query: impl FnOnce(&Connection) -> Result<T, StorageError>) -> Result<T, StorageError> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::open_for_reading(&self.path)?,
        };
        // If a statement fails, the connection is dropped, and its transaction with it.
        connection.prepare_cached("BEGIN")?.execute([])?;
        let result = query(&connection);
        connection.prepare_cached("COMMIT")?.execute([])?;
        self.idle.lock().push(connection);
        result
    }
}
