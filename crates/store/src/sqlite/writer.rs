//! Writer thread with group commit.
//!
//! A commit costs one disk sync, whatever its size. All waiting changes therefore run in one transaction, each under
//! its own savepoint, and get their responses together after the commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::{Connection, ffi};
use tokio::sync::{mpsc, oneshot};

use super::error;
use super::presence::Presence;
use super::records::{SqliteConnection, SqliteRecords};
use super::recovery::{self, Recovery};
use crate::StoreError;
use crate::acknowledged::Acknowledged;
use crate::decoded_studies::DecodedStudies;
use crate::engine::Changes;
use crate::group::{CommitOutcome, Request, TypedRequest};
use tunesmith_telemetry::telemetry;

/// Maximum number of changes per transaction: enough for all waiting callers, few enough to respond soon (not tuned).
const MAX_GROUP: usize = 512;

/// Handle of the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    requests: Option<mpsc::Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which owns `connection`.
    pub(super) fn start(
        connection: Connection,
        path: &Path,
        acknowledged: Acknowledged,
        decoded: Arc<DecodedStudies>,
        recovery: Recovery,
        presence: Presence,
    ) -> Result<Self, StoreError> {
        let (requests, receiver) = mpsc::channel(2 * MAX_GROUP);
        let work = WriterThread { connection, path: path.to_owned(), acknowledged, decoded, recovery, presence };
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
        let request = Box::new(TypedRequest::new(change, answer));
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())?;
        // The thread responds to every request it receives, unless it panics.
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
    decoded: Arc<DecodedStudies>,
    recovery: Recovery,
    /// Last field, so that the file is unlocked after the connection is closed.
    presence: Presence,
}

impl WriterThread {
    fn run(mut self, mut requests: mpsc::Receiver<Box<dyn Request>>) {
        let mut group = Vec::new();
        while self.receive(&mut requests, &mut group) {
            let begin = Instant::now();
            let outcome = self.commit(&mut group);
            telemetry().commit(group.len(), begin.elapsed());
            for request in group.drain(..) {
                request.answer(&outcome);
            }
        }
    }

    /// Waits for the next group; false at the end of the requests. Retries meanwhile if the medium is failing.
    fn receive(&mut self, requests: &mut mpsc::Receiver<Box<dyn Request>>, group: &mut Vec<Box<dyn Request>>) -> bool {
        while self.recovery.is_failing() {
            match requests.try_recv() {
                Ok(request) => {
                    group.push(request);
                    return true;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
                Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(recovery::PAUSE),
            }
            self.recovery.attempt(&mut self.connection, &mut self.presence, &self.acknowledged);
        }
        requests.blocking_recv_many(group, MAX_GROUP) > 0
    }

    fn commit(&mut self, group: &mut [Box<dyn Request>]) -> CommitOutcome {
        self.recovery.attempt(&mut self.connection, &mut self.presence, &self.acknowledged);
        if let Err(error) = self.recovery.check() {
            return CommitOutcome::RolledBack(Arc::new(error));
        }
        if let Err(fault) = self.presence.check() {
            let fault = self.recovery.stop(&self.connection, fault);
            return CommitOutcome::RolledBack(Arc::new(StoreError::not_applied(fault)));
        }
        let commits = match self.make_changes(group) {
            Ok(Some(commits)) => commits,
            Ok(None) => return CommitOutcome::Committed,
            Err(source) => {
                let fault = self.recovery.note(&source);
                self.roll_back();
                let error = match fault {
                    Some(fault) => StoreError::not_applied(fault),
                    None => error::not_applied(&self.path, "write", source),
                };
                return CommitOutcome::RolledBack(Arc::new(error));
            }
        };
        match self.execute("COMMIT") {
            Ok(()) => match self.presence.renew() {
                Ok(()) => {
                    self.count_commit(commits);
                    CommitOutcome::Committed
                }
                Err(fault) => CommitOutcome::Unknown(self.recovery.stop(&self.connection, fault)),
            },
            Err(source) => {
                let fault = self.recovery.fail(&source);
                self.roll_back();
                if recovery::is_certainly_not_applied(&source) {
                    CommitOutcome::RolledBack(Arc::new(StoreError::not_applied(fault)))
                } else {
                    CommitOutcome::Unknown(fault)
                }
            }
        }
    }

    /// Rolls back a failed transaction, unless SQLite has done so.
    fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(store.path = %self.path.display(), error = %error, "a failed transaction cannot be rolled back");
            self.recovery.fail(&error);
        }
    }

    /// Applies `group` and returns the new commit count. Leaves the transaction open, or rolls it back if all changes
    /// are refused (`None`).
    fn make_changes(&self, group: &mut [Box<dyn Request>]) -> rusqlite::Result<Option<i64>> {
        let records = SqliteRecords::new(SqliteConnection {
            connection: &self.connection,
            path: &self.path,
            decoded: &self.decoded,
        });
        self.execute("BEGIN IMMEDIATE")?;
        let mut kept = false;
        // A single change needs no savepoint.
        let is_group = group.len() > 1;
        for request in group {
            if is_group {
                self.execute("SAVEPOINT change")?;
            }
            if request.run(&records) {
                kept = true;
            } else if self.connection.is_autocommit() {
                // SQLite rolled back the whole transaction, as for a full disk.
                let code = ffi::Error::new(ffi::SQLITE_IOERR);
                return Err(rusqlite::Error::SqliteFailure(code, Some("a change ended the transaction".into())));
            } else if is_group {
                self.execute("ROLLBACK TO change")?;
            }
            if is_group {
                self.execute("RELEASE change")?;
            }
        }
        if !kept {
            self.execute("ROLLBACK")?;
            return Ok(None);
        }
        // An update that returns its row would open a statement journal with a 64 KiB buffer.
        self.execute("UPDATE commits SET count = count + 1 WHERE only = 0")?;
        let mut count = self.connection.prepare_cached("SELECT count FROM commits WHERE only = 0")?;
        count.query_row([], |row| row.get(0)).map(Some)
    }

    /// Writes the durable count beside the store. A failure does not endanger the changes, but leaves their loss
    /// undetectable.
    fn count_commit(&self, commits: i64) {
        if let Err(error) = self.acknowledged.raise(commits.cast_unsigned()) {
            tracing::warn!(store.path = %self.path.display(), error = %error, "a commit was not counted");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }
}
