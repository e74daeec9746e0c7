//! The writer thread with group commit.
//!
//! A commit costs one sync of the disk, whatever its size. Therefore all waiting changes run in one transaction, each under
//! its own savepoint, and are answered together after the commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error;
use super::records::SqliteRecords;
use super::studies::DecodedStudies;
use crate::StoreError;
use crate::acknowledged::Acknowledged;
use crate::engine::Changes;
use tunesmith_telemetry::telemetry;

/// Maximal number of changes in one transaction: enough for all waiting callers, few enough to answer soon (not tuned).
const MAX_GROUP: usize = 512;

/// The handle of the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    requests: Option<mpsc::Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which takes ownership of `connection` to a file with `commits` commits.
    pub(super) fn start(
        connection: Connection,
        path: &Path,
        acknowledged: Acknowledged,
        commits: u64,
        decoded: Arc<DecodedStudies>,
    ) -> Result<Self, StoreError> {
        let (requests, receiver) = mpsc::channel(2 * MAX_GROUP);
        let work = WriterThread { connection, path: path.to_owned(), acknowledged, commits, decoded, stopped: false };
        let thread = std::thread::Builder::new()
            .name("store writer".into())
            .spawn(move || work.run(receiver))
            .map_err(|source| StoreError::NotApplied { operation: "start a thread", source: source.into() })?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Runs `change` in the next transaction and returns after its commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = || StoreError::NotApplied { operation: "write", source: "its writer thread has ended".into() };
        let (answer, answered) = oneshot::channel();
        let request = Box::new(TypedRequest { change, result: None, answer });
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())?;
        // The thread answers every request it receives, unless it panics.
        answered.await.unwrap_or_else(|source| Err(StoreError::Unknown { source: source.into() }))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of the store panicked");
        }
    }
}

struct WriterThread {
    connection: Connection,
    path: PathBuf,
    acknowledged: Acknowledged,
    /// Number of commits, which the file contains as well.
    commits: u64,
    decoded: Arc<DecodedStudies>,
    /// Set by a failed commit: a later sync may report success without writing the pages that this one could not write,
    /// so the thread writes no more until the store is opened again.
    stopped: bool,
}

/// The outcome of a group of changes.
enum CommitOutcome {
    Committed,
    RolledBack(Arc<StoreError>),
    Unknown(Arc<rusqlite::Error>),
}

impl WriterThread {
    fn run(mut self, mut requests: mpsc::Receiver<Box<dyn Request>>) {
        let mut group = Vec::new();
        while requests.blocking_recv_many(&mut group, MAX_GROUP) > 0 {
            let begin = Instant::now();
            let outcome = self.commit(&mut group);
            telemetry().commit(group.len(), begin.elapsed());
            self.stopped |= matches!(outcome, CommitOutcome::Unknown(_));
            for request in group.drain(..) {
                request.answer(&outcome);
            }
        }
    }

    fn commit(&mut self, group: &mut [Box<dyn Request>]) -> CommitOutcome {
        if self.stopped {
            let source = "an earlier commit failed; restart the program".into();
            return CommitOutcome::RolledBack(Arc::new(StoreError::NotApplied { operation: "write", source }));
        }
        let commits = match self.make_changes(group) {
            Ok(Some(commits)) => commits,
            Ok(None) => return CommitOutcome::Committed,
            Err(source) => {
                if !self.connection.is_autocommit()
                    && let Err(source) = self.execute("ROLLBACK")
                {
                    return CommitOutcome::Unknown(Arc::new(source));
                }
                return CommitOutcome::RolledBack(Arc::new(error::not_applied(&self.path, "write", source)));
            }
        };
        match self.execute("COMMIT") {
            Ok(()) => {
                self.commits = commits;
                self.count_commit();
                CommitOutcome::Committed
            }
            Err(source) => {
                tracing::error!(store.path = %self.path.display(), error = %source, "a commit failed; the store stops");
                if !self.connection.is_autocommit()
                    && let Err(error) = self.execute("ROLLBACK")
                {
                    tracing::error!(store.path = %self.path.display(), error = %error, "the failed commit cannot be rolled back");
                }
                CommitOutcome::Unknown(Arc::new(source))
            }
        }
    }

    /// Makes the changes of `group`, and returns the number of commits after it. The transaction is left open, or is rolled
    /// back if all changes are refused (`None`).
    fn make_changes(&self, group: &mut [Box<dyn Request>]) -> rusqlite::Result<Option<u64>> {
        let records = SqliteRecords::new(&self.connection, &self.path, &self.decoded);
        self.execute("BEGIN IMMEDIATE")?;
        let mut kept = false;
        // A change that is alone needs no savepoint.
        let is_group = group.len() > 1;
        for request in group {
            if is_group {
                self.execute("SAVEPOINT change")?;
            }
            if request.run(&records) {
                kept = true;
            } else if is_group {
                // If SQLite has rolled back the whole transaction, as for a full disk, this fails, and so does the group.
                self.execute("ROLLBACK TO change")?;
            }
            if is_group {
                self.execute("RELEASE change")?;
            }
        }
        if kept {
            return self.count_changes().map(Some);
        }
        self.execute("ROLLBACK")?;
        Ok(None)
    }

    /// Adds one to the number of commits in the file, and returns it.
    fn count_changes(&self) -> rusqlite::Result<u64> {
        let commits = self.commits + 1;
        self.connection.prepare_cached("UPDATE commits SET count = ?1")?.execute([commits.cast_signed()])?;
        Ok(commits)
    }

    /// Writes the durable count beside the store. If that fails the changes are safe, but their loss would be undetected.
    fn count_commit(&self) {
        if let Err(error) = self.acknowledged.raise(self.commits) {
            tracing::warn!(store.path = %self.path.display(), error = %error, "a commit was not counted");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }
}

/// A waiting change with any type of result.
trait Request: Send {
    /// Runs the change; returns whether to commit it.
    fn run(&mut self, records: &SqliteRecords<'_>) -> bool;
    /// Sends the result to the caller.
    fn answer(self: Box<Self>, outcome: &CommitOutcome);
}

struct TypedRequest<T, F> {
    change: F,
    result: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Request for TypedRequest<T, F>
where
    T: Send,
    F: Fn(&dyn Changes) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, records: &SqliteRecords<'_>) -> bool {
        self.result.insert((self.change)(records)).is_ok()
    }

    fn answer(self: Box<Self>, outcome: &CommitOutcome) {
        let result = match (self.result, outcome) {
            // A refused change keeps its own error, even if the group failed afterwards.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), CommitOutcome::Committed) => Ok(value),
            (Some(Ok(_)), CommitOutcome::Unknown(source)) => {
                Err(StoreError::Unknown { source: Box::new(Arc::clone(source)) })
            }
            (Some(Ok(_)) | None, CommitOutcome::RolledBack(source)) => {
                Err(StoreError::NotApplied { operation: "write", source: Box::new(Arc::clone(source)) })
            }
            (None, _) => Err(StoreError::NotApplied { operation: "write", source: "its group was rolled back".into() }),
        };
        // The caller may no longer wait; its change is applied all the same.
        let _ = self.answer.send(result);
    }
}
