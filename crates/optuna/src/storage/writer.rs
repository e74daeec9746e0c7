//! Writer thread with group commit.
//!
//! A commit costs one disk sync, whatever its size. All waiting changes therefore run in one transaction, each under
//! its own savepoint, and get their responses together after the commit. IDs are drawn within the transaction, so that
//! they become visible in their order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use rustix::fs::stat;
use tokio::sync::{mpsc, oneshot};

use super::{StorageError, deletion};

/// Maximum number of changes per transaction (not tuned).
const MAX_GROUP: usize = 256;

/// Handle of the writer thread. Dropping it waits for pending commits.
#[derive(Debug)]
pub(super) struct Writer {
    requests: Option<mpsc::Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which owns `connection` to the file `path`.
    pub(super) fn start(connection: Connection, path: &Path) -> Result<Self, StorageError> {
        let failed =
            |operation, source: std::io::Error| StorageError::NotApplied { operation, source: Arc::new(source) };
        let files = [path.to_owned(), super::beside(path, "-wal")];
        let identities = files.map(|path| identity(&path).map(|identity| (path, identity)));
        let [main, log] = identities;
        let files = [
            main.map_err(|source| failed("find its file", source.into()))?,
            log.map_err(|source| failed("find its write-ahead log", source.into()))?,
        ];
        let (requests, receiver) = mpsc::channel(2 * MAX_GROUP);
        let has_deletions = deletion::are_unfinished(&connection)?;
        let work = WriterThread { connection, files, stopped: None, has_deletions };
        let thread = std::thread::Builder::new()
            .name("optuna writer".into())
            .spawn(move || work.run(receiver))
            .map_err(|source| failed("start a thread", source))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Runs `change` in the next transaction and returns after its commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let ended = || StorageError::Stopped { reason: "its writer thread has ended".into() };
        let (answer, answered) = oneshot::channel();
        let request = TypedRequest { change: Some(change), result: None, answer };
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(Box::new(request)).await.map_err(|_| ended())?;
        // The thread responds to every request it receives, unless it panics.
        answered.await.unwrap_or_else(|source| Err(StorageError::Unknown { source: Arc::new(source) }))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of the Optuna storage panicked");
        }
    }
}

/// A waiting change, independent of its result type.
trait Request: Send {
    /// Runs the change; returns whether to commit it.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Sends the result to the caller; `failure` is that of the commit.
    fn answer(self: Box<Self>, failure: Option<&StorageError>);
}

struct TypedRequest<T, F> {
    change: Option<F>,
    result: Option<Result<T, StorageError>>,
    answer: oneshot::Sender<Result<T, StorageError>>,
}

impl<T, F> Request for TypedRequest<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StorageError> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let Some(change) = self.change.take() else { return false };
        self.result.insert(change(connection)).is_ok()
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        let result = match (self.result, failure) {
            // A refused change keeps its own error, even if the commit of the others failed.
            (Some(Err(error)), _) => Err(error),
            (_, Some(failure)) => Err(failure.clone()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(StorageError::Stopped { reason: "its group was not executed".into() }),
        };
        // The caller may be gone; its change is applied regardless.
        let _ = self.answer.send(result);
    }
}

type Identity = (u64, u64);

fn identity(path: &Path) -> Result<Identity, rustix::io::Errno> {
    stat(path).map(|found| (found.st_dev, found.st_ino))
}

struct WriterThread {
    connection: Connection,
    /// Main file and write-ahead log, which must stay those that were opened: a removed file accepts writes.
    files: [(PathBuf, Identity); 2],
    /// Failure after which no change is accepted.
    stopped: Option<StorageError>,
    /// Whether trials of deleted studies remain.
    has_deletions: bool,
}

impl WriterThread {
    fn run(mut self, mut requests: mpsc::Receiver<Box<dyn Request>>) {
        let mut group = Vec::new();
        while self.receive(&mut requests, &mut group) {
            let failure = self.commit(&mut group).err();
            // A failed step is repeated after the next change, not immediately.
            self.has_deletions &= failure.is_none();
            for request in group.drain(..) {
                request.answer(failure.as_ref());
            }
        }
    }

    /// Waits for the next group, or takes only those that wait while deletions are unfinished. False at the end.
    fn receive(&self, requests: &mut mpsc::Receiver<Box<dyn Request>>, group: &mut Vec<Box<dyn Request>>) -> bool {
        if !self.has_deletions || self.stopped.is_some() {
            return requests.blocking_recv_many(group, MAX_GROUP) > 0;
        }
        while group.len() < MAX_GROUP {
            match requests.try_recv() {
                Ok(request) => group.push(request),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return !group.is_empty(),
            }
        }
        true
    }

    fn commit(&mut self, group: &mut [Box<dyn Request>]) -> Result<(), StorageError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        self.check_files()?;
        if let Err(source) = self.execute("BEGIN IMMEDIATE").and_then(|()| self.change(group)) {
            self.roll_back();
            return Err(StorageError::not_applied("write")(source));
        }
        if let Err(source) = self.execute("COMMIT") {
            self.roll_back();
            if source.sqlite_error_code() == Some(ErrorCode::DiskFull) {
                return Err(StorageError::not_applied("write")(source));
            }
            // After a failed sync, the log may hold pages that never reach the disk, and later commits would depend on
            // them.
            self.stop(&format!("a commit failed: {source}"));
            return Err(StorageError::Unknown { source: Arc::new(source) });
        }
        self.has_deletions = deletion::are_unfinished(&self.connection).unwrap_or(true);
        self.check_files().map_err(|error| StorageError::Unknown { source: Arc::new(error) })
    }

    /// Runs `group`, and a step of the unfinished deletions.
    fn change(&mut self, group: &mut [Box<dyn Request>]) -> rusqlite::Result<()> {
        for request in group {
            self.execute("SAVEPOINT change")?;
            if !request.run(&self.connection) {
                if self.connection.is_autocommit() {
                    // SQLite rolled back the whole transaction, as for a full disk.
                    return Err(rusqlite::Error::SqliteFailure(
                        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR),
                        Some("a change ended the transaction".into()),
                    ));
                }
                self.execute("ROLLBACK TO change")?;
            }
            self.execute("RELEASE change")?;
        }
        if self.has_deletions { deletion::step(&self.connection) } else { Ok(()) }
    }

    /// Rolls back a failed transaction, unless SQLite has done so.
    fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            self.stop(&format!("a failed transaction cannot be rolled back: {error}"));
        }
    }

    fn check_files(&mut self) -> Result<(), StorageError> {
        let lost = self.files.iter().find(|(path, known)| identity(path) != Ok(*known));
        match lost {
            None => Ok(()),
            Some((path, _)) => {
                Err(self.stop(&format!("{} was removed or replaced while the server ran", path.display())))
            }
        }
    }

    fn stop(&mut self, reason: &str) -> StorageError {
        tracing::error!(reason, "the Optuna storage refuses changes until the server is restarted");
        self.stopped.get_or_insert(StorageError::Stopped { reason: reason.into() }).clone()
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }
}
