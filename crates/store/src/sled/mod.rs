//! Pure Rust store: a folder of the `sled` engine.
//!
//! Every change is flushed before it is acknowledged, but on Linux sled's flush does not sync the device
//! (`sync_file_range`): acknowledged changes survive a process crash, but not a power cut. Since sled does not report
//! lost changes, a file beside it counts them ([`super::acknowledged`]).

mod flush;
mod presence;
mod records;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use sled::transaction::{ConflictableTransactionError, TransactionError, TransactionalTree};
use sled::{Db, Error};
use tokio::sync::watch;

use super::acknowledged::Acknowledged;
use super::engine::{Changes, Engine, Ranges, Scope};
use super::file_lock::FileLock;
use super::{Condition, OpenMode, RESTORE_ADVICE, StoreError, StoreFault};
use flush::{FlushError, Flusher};
use presence::Presence;
use records::{SledRecords, Snapshot};

/// Version of the folder layout, separate from the version of each record. 1: release 0.1.0.
const FORMAT: u32 = 1;

/// File with that version, inside the folder; missing before 0.1.0. Kept outside the log, because sled changes the
/// folder when opening it.
const FORMAT_FILE: &str = "format";

const LOG_FILE: &str = "db";

/// File with the acknowledged change count, inside the folder.
const COUNT_FILE: &str = "acknowledged";

/// A [`super::Store`] in a sled folder.
#[derive(Debug)]
pub struct SledStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    db: Db,
    acknowledged: Acknowledged,
    /// Isolates reads from writes, because sled's iterators return partial transactions.
    isolation: RwLock<()>,
    /// Set by the first panic inside sled, which leaves it in an undefined state.
    broken: OnceLock<String>,
    /// After the first failed write or sync, sled accepts no changes until reopened.
    condition: watch::Sender<Condition>,
    presence: Presence,
    flusher: Flusher,
}

impl SledStore {
    /// Opens the store in the folder `path` and logs its guarantees. Blocks; call it off the async runtime.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if sled cannot read the folder or acknowledged changes are missing, and in
    /// [`OpenMode::Existing`] if the store is missing or empty. [`StoreError::TooNew`], [`StoreError::BeforeRelease`].
    /// [`StoreError::InUse`]. [`StoreError::NotApplied`] if the folder cannot be read or written.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        let log = path.join(LOG_FILE);
        if mode == OpenMode::Existing && !log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(damaged(path, format!("{LOG_FILE} is missing or empty")));
        }
        check_format(path, &log)?;
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
        inner.guarded(|| inner.check_changes(mode))?;
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
            let _guard = inner.isolation.read();
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
            let _guard = self.isolation.write();
            let result = self.db.transaction(|transaction| {
                let records = SledRecords::new(transaction, &self.path);
                let answer = change(&records).map_err(|error| records.conflict_or(error))?;
                let count = records.count_change().map_err(|error| records.conflict_or(error))?;
                Ok((answer, count))
            });
            result.map_err(|error| match error {
                TransactionError::Abort(error) => error,
                // Must precede the next transaction, which would wait forever.
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

    /// Converts the error of a change, stopping the store if the medium failed.
    fn failed(&self, error: Error) -> StoreError {
        let Error::Io(source) = &error else { return not_applied(&self.path, "write", error) };
        if source.kind() == ErrorKind::InvalidData {
            return not_applied(&self.path, "write", error);
        }
        StoreError::not_applied(self.stop(StoreFault::from(source)))
    }

    /// Rejects all further changes because of `fault`, or an earlier one.
    fn stop(&self, fault: StoreFault) -> StoreFault {
        if let Some(earlier) = self.condition.borrow().fault() {
            return earlier.clone();
        }
        tracing::error!(store.path = %self.path.display(), fault = %fault, "the store stops; restart the program");
        self.condition.send_replace(Condition::Stopped(fault.clone()));
        fault
    }

    /// Checks that all acknowledged changes are present. Makes a first change in a new store, which creates its log.
    fn check_changes(&self, mode: OpenMode) -> Result<(), StoreError> {
        let count = SledRecords::new(Snapshot(&self.db), &self.path).change_count()?;
        self.acknowledged.check(&self.path, count)?;
        match mode {
            _ if count > 0 => Ok(()),
            OpenMode::Create => self.write(|_| Ok(())),
            OpenMode::Existing => Err(damaged(&self.path, "it has no changes".into())),
        }
    }

    /// Runs `work`, converting panics of sled, the usual result of damage, into errors.
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

/// Checks the layout version of the folder, or records it in a new one. A refused folder stays unchanged.
fn check_format(path: &Path, log: &Path) -> Result<(), StoreError> {
    let file = path.join(FORMAT_FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(StoreError::not_applied_io("read its version", error)),
    };
    if text.is_empty() && log.exists() {
        return Err(StoreError::BeforeRelease { path: path.to_owned(), found: format!("no file {FORMAT_FILE}") });
    }
    if text.is_empty() {
        let write = || {
            fs::create_dir_all(path)?;
            let mut new = File::create(&file)?;
            writeln!(new, "{FORMAT}")?;
            new.sync_all()?;
            File::open(path)?.sync_all()
        };
        return write().map_err(|source| StoreError::not_applied_io("create its folder", source));
    }
    match text.trim_end().parse() {
        Ok(FORMAT) => Ok(()),
        Ok(found) if found > FORMAT => Err(StoreError::TooNew { path: path.to_owned(), found, known: FORMAT }),
        _ => Err(damaged(path, format!("{FORMAT_FILE} contains {text:?}"))),
    }
}

/// Waits up to a second for the lock of the log, which sled's threads release some time after the store is dropped, and
/// removes unfinished snapshots under it.
///
/// # Errors
/// [`StoreError::InUse`] if the lock is not released; [`StoreError::NotApplied`] if a file cannot be removed.
fn prepare(path: &Path, log: &Path) -> Result<(), StoreError> {
    if !log.exists() {
        return Ok(());
    }
    let _lock = FileLock::take(log, OpenMode::Existing)?;
    remove_unfinished_snapshots(path)
        .map_err(|source| StoreError::not_applied_io("remove an unfinished snapshot", source))
}

/// Removes incomplete snapshots (`snap.*.generating`) of a dead process, which sled would read as complete and refuse
/// the folder. The log contains all their data.
fn remove_unfinished_snapshots(path: &Path) -> std::io::Result<()> {
    for entry in path.read_dir()? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("snap.") && name.ends_with(".generating")) {
            tracing::info!(store.path = %path.display(), file = %name.display(), "removing an unfinished snapshot");
            fs::remove_file(path.join(name))?;
        }
    }
    Ok(())
}

fn damaged(path: &Path, detail: String) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), detail: format!("{detail}; {RESTORE_ADVICE}") }
}

fn not_applied(path: &Path, operation: &'static str, error: Error) -> StoreError {
    match error {
        Error::Io(source) if source.kind() != ErrorKind::InvalidData => StoreError::not_applied_io(operation, source),
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

type Abort = ConflictableTransactionError<StoreError>;
