//! The store in pure Rust: a folder of the `sled` engine.
//!
//! Every change is flushed before it is acknowledged, but on Linux sled's flush does not sync the device
//! (`sync_file_range`): acknowledged changes survive a crash of the process, but not a power cut. Sled does not report lost
//! changes, so a file beside it contains their number ([`super::acknowledged`]).

mod flush;
mod presence;
mod records;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sled::transaction::{ConflictableTransactionError, TransactionError, TransactionalTree};
use sled::{Db, Error};
use tokio::sync::watch;

use super::acknowledged::Acknowledged;
use super::engine::{Changes, Engine, Ranges, Scope};
use super::{Condition, OpenMode, RESTORE_ADVICE, StoreError, StoreFault};
use flush::{FlushError, Flusher};
use presence::Presence;
use records::{SledRecords, Snapshot};

/// The version of the folder's layout; that of each record is in the record. 2: with an index of open trials.
const FORMAT: u32 = 2;

/// The name of sled's file.
const LOG_FILE: &str = "db";

/// The name of the file with the number of acknowledged changes, inside the folder.
const COUNT_FILE: &str = "acknowledged";

/// A [`super::Store`] in a folder of sled.
#[derive(Debug)]
pub struct SledStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    db: Db,
    acknowledged: Acknowledged,
    /// Separates reads from writes, because sled's iterators return partial transactions.
    isolation: RwLock<()>,
    /// Set by the first panic inside sled, after which its state is undefined.
    broken: OnceLock<String>,
    /// Sled takes no change after the first failed write or sync, until it is opened again.
    condition: watch::Sender<Condition>,
    presence: Presence,
    flusher: Flusher,
}

impl SledStore {
    /// Opens the store in the folder `path`, and logs its guarantees. Blocks; call it off the async runtime.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if sled cannot read the folder, or acknowledged changes are missing from it, and in
    /// [`OpenMode::Existing`] if the store is missing or empty. [`StoreError::TooNew`].
    /// [`StoreError::InUse`]. [`StoreError::NotApplied`] if the folder cannot be read or written.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        let log = path.join(LOG_FILE);
        if mode == OpenMode::Existing && !log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(damaged(path, format!("{LOG_FILE} is missing or empty")));
        }
        prepare(path, &log)?;
        let open = || sled::Config::new().path(path).flush_every_ms(None).open();
        let db = match catch_unwind(open) {
            Ok(opened) => opened.map_err(|error| not_applied(path, "open its folder", error))?,
            Err(panic) => return Err(damaged(path, format!("sled cannot open it: {}", panic_text(&*panic)))),
        };
        let presence = Presence::new(&log).map_err(|source| StoreError::not_applied_io("open its log", source))?;
        let condition = watch::channel(Condition::Working).0;
        let flusher = Flusher::start(db.clone(), condition.subscribe())
            .map_err(|source| StoreError::not_applied_io("start the thread of its flushes", source))?;
        let inner = Inner {
            path: path.to_owned(),
            acknowledged: Acknowledged::open(&path.join(COUNT_FILE))?,
            db,
            isolation: RwLock::default(),
            broken: OnceLock::new(),
            condition,
            presence,
            flusher,
        };
        inner.guarded(|| inner.check_format(mode))?;
        tracing::warn!(
            store.path = %path.display(),
            "store sled: acknowledged changes survive a crash of this program, but not a power cut or a crash of the \
             operating system; for that use --store sqlite"
        );
        Ok(Self { inner: Arc::new(inner) })
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || inner.guarded(|| work(&inner)));
        task.await.map_err(|source| StoreError::NotApplied { operation, source: source.into() })?
    }
}

impl Engine for SledStore {
    // Changes run on blocking threads, in any order.
    const KEEPS_ORDER: bool = false;

    fn condition(&self) -> watch::Receiver<Condition> {
        self.inner.condition.subscribe()
    }

    async fn write<T: Send + 'static>(
        &self,
        _scope: Scope,
        change: impl Fn(&dyn Changes) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run("write", move |inner| inner.write(|records| change(records))).await
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&dyn Ranges) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run("read", move |inner| {
            let _guard = inner.isolation.read().unwrap_or_else(PoisonError::into_inner);
            query(&SledRecords::new(Snapshot(&inner.db), &inner.path))
        })
        .await
    }
}

impl Inner {
    fn write<T>(
        &self,
        change: impl Fn(&SledRecords<'_, &TransactionalTree>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // A new store has no log before its first change.
        if self.acknowledged.count() > 0
            && let Err(fault) = self.presence.check()
        {
            return Err(StoreError::not_applied(self.stop(fault)));
        }
        let committed = self.flusher.between_flushes(|| {
            let _guard = self.isolation.write().unwrap_or_else(PoisonError::into_inner);
            let result = self.db.transaction(|transaction| {
                let records = SledRecords::new(transaction, &self.path);
                let answer = change(&records).map_err(|error| records.conflict_or(error))?;
                let count = records.count_change().map_err(|error| records.conflict_or(error))?;
                Ok((answer, count))
            });
            result.map_err(|error| match error {
                TransactionError::Abort(error) => error,
                // Before another transaction may start, which would wait for ever.
                TransactionError::Storage(error) => self.failed(error),
            })
        });
        let (answer, count) = committed.map_err(StoreError::not_applied)??;
        self.flusher.flush().map_err(|error| match error {
            FlushError::Stopped(fault) => StoreError::Unknown { source: Box::new(fault) },
            FlushError::Sled(error) => match self.failed(error) {
                StoreError::NotApplied { source, .. } => StoreError::Unknown { source },
                error => error,
            },
        })?;
        if let Err(fault) = self.presence.check() {
            return Err(StoreError::Unknown { source: Box::new(self.stop(fault)) });
        }
        self.acknowledged.raise(count)?;
        Ok(answer)
    }

    /// The error for `error` of a change. Stops the store if the medium failed.
    fn failed(&self, error: Error) -> StoreError {
        let Error::Io(source) = &error else { return not_applied(&self.path, "write", error) };
        if source.kind() == std::io::ErrorKind::InvalidData {
            return not_applied(&self.path, "write", error);
        }
        StoreError::not_applied(self.stop(StoreFault::from(source)))
    }

    /// Refuses all further changes because of `fault`, or of an earlier one.
    fn stop(&self, fault: StoreFault) -> StoreFault {
        if let Some(earlier) = self.condition.borrow().fault() {
            return earlier.clone();
        }
        tracing::error!(store.path = %self.path.display(), fault = %fault, "the store stops; restart the program");
        self.condition.send_replace(Condition::Stopped(fault.clone()));
        fault
    }

    fn check_format(&self, mode: OpenMode) -> Result<(), StoreError> {
        let records = SledRecords::new(Snapshot(&self.db), &self.path);
        match records.format()? {
            Some(FORMAT) => {}
            Some(1) => {
                let open = records.unindexed_open_trials()?;
                self.write(|records| {
                    open.iter().try_for_each(|key| records.put_open(key))?;
                    records.put_format(FORMAT)
                })?;
            }
            Some(found) if found > FORMAT => {
                return Err(StoreError::TooNew { path: self.path.clone(), found, known: FORMAT });
            }
            None if mode == OpenMode::Create && self.db.is_empty() && self.acknowledged.count() == 0 => {
                return self.write(|records| records.put_format(FORMAT));
            }
            Some(_) | None => return Err(damaged(&self.path, "its format version is missing".into())),
        }
        self.acknowledged.check(&self.path, records.change_count()?)
    }

    /// Runs `work`, and converts a panic of sled, which much damage causes, into an error.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(panic) = self.broken.get() {
            return Err(damaged(&self.path, format!("sled stopped: {panic}")));
        }
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = self.broken.get_or_init(|| panic_text(&*panic));
            self.stop(StoreFault::Failed { detail: format!("sled stopped: {text}") });
            Err(damaged(&self.path, format!("sled stopped: {text}")))
        })
    }
}

/// Waits up to a second for the lock of the log, and removes unfinished snapshots while it is held. Sled's threads release
/// the lock some time after the store is dropped, and a child process has a copy of it until it executes its program.
///
/// # Errors
/// [`StoreError::InUse`] if the lock is not released; [`StoreError::NotApplied`] if a file cannot be removed.
fn prepare(path: &Path, log: &Path) -> Result<(), StoreError> {
    const PAUSE: Duration = Duration::from_millis(5);
    const MAX_PAUSES: usize = 200;
    // Without a log, or if it cannot be opened, sled's own error follows.
    let Ok(file) = File::open(log) else { return Ok(()) };
    for _ in 0..MAX_PAUSES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Ok(()) => {
                let removed = remove_unfinished_snapshots(path);
                // Unlocked explicitly, since such a child may have a copy of this lock too.
                let _ = flock(&file, FlockOperation::Unlock);
                return removed.map_err(|source| StoreError::not_applied_io("remove an unfinished snapshot", source));
            }
            Err(_) => return Ok(()),
        }
    }
    Err(StoreError::InUse { path: path.to_owned() })
}

/// Removes snapshots that an ended process was writing. Sled names them `snap.*.generating` until they are complete, but
/// reads them as if they were, and refuses the folder. Its log contains all that they would.
fn remove_unfinished_snapshots(path: &Path) -> std::io::Result<()> {
    for entry in path.read_dir()? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("snap.") && name.ends_with(".generating")) {
            tracing::info!(store.path = %path.display(), file = %name.display(), "removing an unfinished snapshot");
            std::fs::remove_file(path.join(name))?;
        }
    }
    Ok(())
}

fn damaged(path: &Path, detail: String) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), detail: format!("{detail}; {RESTORE_ADVICE}") }
}

/// The error for `error`, which occurred before the commit.
fn not_applied(path: &Path, operation: &'static str, error: Error) -> StoreError {
    match error {
        Error::Io(source) if source.kind() != std::io::ErrorKind::InvalidData => {
            StoreError::not_applied_io(operation, source)
        }
        error => damaged(path, error.to_string()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

/// The error type of sled's transactions.
type Abort = ConflictableTransactionError<StoreError>;
