//! Read connections and the threads that use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::records::{SqliteConnection, SqliteRecords};
use super::{error, schema};
use crate::StoreError;
use crate::decoded_studies::DecodedStudies;
use crate::engine::Ranges;
use crate::file_lock::FileLock;

/// Maximum number of concurrent reads on blocking threads; more would only wait for the processor or disk.
const MAX_READERS: usize = 8;

/// Connection pool, filled on demand.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    decoded: Arc<DecodedStudies>,
    idle: Mutex<Idle>,
    permits: Semaphore,
    /// Last field, to be dropped after the connections.
    _lock: Option<Arc<FileLock>>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<Connection>,
    closed: bool,
}

impl Readers {
    pub(super) fn new(path: &Path, decoded: Arc<DecodedStudies>, lock: Option<Arc<FileLock>>) -> Self {
        let permits = Semaphore::new(MAX_READERS);
        Self { path: path.to_owned(), decoded, idle: Mutex::default(), permits, _lock: lock }
    }

    /// Runs `query` on a blocking thread, in one read transaction.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|source| failed(source.into()))?;
        let readers = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || readers.read_blocking(query));
        reading.await.map_err(|source| failed(source.into()))?
    }

    /// Runs `query` on the calling thread, in one read transaction; faster than a thread switch for few records.
    pub(super) fn lookup<T>(&self, query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.read_blocking(query)
    }

    pub(super) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if !idle.closed {
            idle.connections.push(connection);
        }
    }

    /// Closes the connections; those in use are closed after their read.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock();
        idle.closed = true;
        idle.connections.clear();
    }

    fn read_blocking<T>(&self, query: impl FnOnce(&dyn Ranges) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().connections.pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::open_for_reading(&self.path)?,
        };
        let failed = |source| error::not_applied(&self.path, "read", source);
        // If either statement fails, the connection is dropped, and its transaction with it.
        execute(&connection, "BEGIN").map_err(failed)?;
        let answer = query(&SqliteRecords::new(SqliteConnection {
            connection: &connection,
            path: &self.path,
            decoded: &self.decoded,
        }));
        execute(&connection, "COMMIT").map_err(failed)?;
        self.put_back(connection);
        answer
    }
}

/// Executes a parameterless statement, compiled once per connection.
fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> StoreError {
    StoreError::NotApplied { operation: "read", source }
}
