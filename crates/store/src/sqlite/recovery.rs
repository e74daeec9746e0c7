//! Recovery of the writer from a failed write or sync: retries until the medium accepts changes.
//!
//! After a failed sync, the kernel may hold pages that never reach the disk, and later commits would depend on them.
//! The store therefore resumes only after merging the write-ahead log into the file and truncating it, which writes and
//! syncs every page again, checking the result, and committing a change of its own. A restart would do less: it would
//! read the log from the same cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::watch;

use super::health::Health;
use super::presence::Presence;
use super::{beside, error, schema};
use crate::acknowledged::Acknowledged;
use crate::{Condition, OpenMode, StoreError, StoreFault};

/// Retry interval. Changes arriving meanwhile wait for the next attempt.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Maximum wait of an attempt for readers to leave the write-ahead log.
const READERS_TIMEOUT: Duration = Duration::from_secs(1);

/// Condition of the store, updated by the writer.
#[derive(Debug)]
pub(super) struct Recovery {
    path: PathBuf,
    health: Arc<Health>,
    condition: watch::Sender<Condition>,
    last_attempt: Instant,
}

impl Recovery {
    pub(super) fn new(path: &Path, health: Arc<Health>, condition: watch::Sender<Condition>) -> Self {
        Self { path: path.to_owned(), health, condition, last_attempt: Instant::now() }
    }

    /// Whether changes fail now and [`Self::attempt`] may recover.
    pub(super) fn is_failing(&self) -> bool {
        matches!(*self.condition.borrow(), Condition::Failing(_))
    }

    /// An error unless the store works.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.condition.borrow().fault() {
            None => Ok(()),
            Some(fault) => Err(StoreError::not_applied(fault.clone())),
        }
    }

    /// Records a statement's error. Returns the fault if the medium failed.
    pub(super) fn note(&mut self, error: &rusqlite::Error) -> Option<StoreFault> {
        let is_of_medium = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen)
        );
        is_of_medium.then(|| self.fail(error))
    }

    /// Records a failed commit.
    pub(super) fn fail(&mut self, error: &rusqlite::Error) -> StoreFault {
        let fault = fault_of(&self.path, error);
        tracing::error!(
            store.path = %self.path.display(), error = %error, fault = %fault,
            "the store cannot write; it refuses changes and tries again until it can"
        );
        self.last_attempt = Instant::now();
        self.condition.send_replace(Condition::Failing(fault.clone()));
        fault
    }

    /// Rejects all further changes because of `fault`. Closing the connection then leaves the log beside the file.
    pub(super) fn stop(&mut self, connection: &Connection, fault: StoreFault) -> StoreFault {
        tracing::error!(store.path = %self.path.display(), fault = %fault, "the store stops");
        let keep_log = connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        if let Err(error) = keep_log {
            tracing::warn!(store.path = %self.path.display(), error = %error, "the log may be merged when the store closes");
        }
        self.condition.send_replace(Condition::Stopped(fault.clone()));
        fault
    }

    /// Attempts to recover, unless the last attempt was too recent.
    pub(super) fn attempt(&mut self, connection: &mut Connection, presence: &mut Presence, count: &Acknowledged) {
        if !self.is_failing() || self.last_attempt.elapsed() < PAUSE {
            return;
        }
        self.last_attempt = Instant::now();
        let reopened = self.reopen(connection, count);
        // The attempt itself writes to both files.
        if let Err(fault) = presence.renew_after_merge() {
            self.stop(connection, fault);
            return;
        }
        match reopened {
            Ok(fresh) => {
                *connection = fresh;
                tracing::warn!(store.path = %self.path.display(), "the store can write again and takes changes");
                self.condition.send_replace(Condition::Working);
            }
            Err(Obstacle::Medium(fault)) => {
                self.condition.send_replace(Condition::Failing(fault));
            }
            Err(Obstacle::Readers) => {}
            Err(Obstacle::Damage(detail)) => {
                self.stop(connection, StoreFault::NotTheSame { detail });
            }
        }
    }

    /// Checks whether a newly opened store is writable. If not, it is readable, and retries.
    pub(super) fn check_writing(
        &mut self,
        connection: &Connection,
        acknowledged: &Acknowledged,
    ) -> Result<(), StoreError> {
        match self.make_commit(connection, acknowledged) {
            Ok(()) => Ok(()),
            Err(Obstacle::Medium(fault)) => {
                tracing::error!(
                    store.path = %self.path.display(), fault = %fault,
                    "the store cannot write; it refuses changes and tries again until it can"
                );
                self.condition.send_replace(Condition::Failing(fault));
                if connection.is_autocommit() {
                    return Ok(());
                }
                let ended = connection.execute_batch("ROLLBACK");
                ended.map_err(|source| error::not_applied(&self.path, "write", source))
            }
            // Another program is writing; the first change waits for its lock too.
            Err(Obstacle::Readers) => Ok(()),
            Err(Obstacle::Damage(detail)) => Err(StoreError::Damaged { path: self.path.clone(), detail }),
        }
    }

    /// Commits an increment of the commit count alone.
    fn make_commit(&self, connection: &Connection, acknowledged: &Acknowledged) -> Result<(), Obstacle> {
        let failed = |error: rusqlite::Error| Obstacle::of_statement(&self.path, &error);
        connection.execute_batch("BEGIN IMMEDIATE; UPDATE commits SET count = count + 1; COMMIT").map_err(failed)?;
        let count = schema::commit_count(connection).map_err(failed)?;
        acknowledged.raise(count).map_err(Obstacle::of_store)
    }

    fn reopen(&self, former: &Connection, acknowledged: &Acknowledged) -> Result<Connection, Obstacle> {
        let failed = |error: rusqlite::Error| Obstacle::of_statement(&self.path, &error);
        if !former.is_autocommit() {
            former.execute_batch("ROLLBACK").map_err(failed)?;
        }
        let fresh = schema::open_for_writing(&self.path, OpenMode::Existing).map_err(Obstacle::of_store)?;
        fresh.busy_timeout(READERS_TIMEOUT).map_err(failed)?;
        let is_blocked: bool =
            fresh.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
        if is_blocked {
            return Err(Obstacle::Readers);
        }
        self.health.check_again().map_err(Obstacle::of_store)?;
        acknowledged.check(&self.path, schema::commit_count(&fresh).map_err(failed)?).map_err(Obstacle::of_store)?;
        self.make_commit(&fresh, acknowledged)?;
        fresh.busy_timeout(schema::BUSY_TIMEOUT).map_err(failed)?;
        Ok(fresh)
    }
}

/// Why an attempt failed.
enum Obstacle {
    /// The medium still fails.
    Medium(StoreFault),
    /// Readers still use the log.
    Readers,
    /// The store has changed.
    Damage(String),
}

impl Obstacle {
    fn of_statement(path: &Path, error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => Self::Readers,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damage(error.to_string()),
            _ => Self::Medium(fault_of(path, error)),
        }
    }

    fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { detail, .. } => Self::Damage(detail),
            error @ StoreError::TooNew { .. } => Self::Damage(error.to_string()),
            error => match error.fault() {
                Some(fault) => Self::Medium(fault.clone()),
                None => Self::Medium(StoreFault::Failed { detail: error.to_string() }),
            },
        }
    }
}

/// Whether a failed commit is certainly not applied. The frame that validates it is written last, so a failed write
/// precedes it, whereas a failed sync follows it.
pub(super) fn is_certainly_not_applied(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE))
}

/// Fault indicated by a statement's error.
pub(super) fn fault_of(path: &Path, error: &rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreFault::NoSpace,
        _ => {
            let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
            let largest = size(path).max(size(&beside(path, "-wal")));
            StoreFault::of_medium(&beside(path, "-probe"), largest, error.to_string())
        }
    }
}
