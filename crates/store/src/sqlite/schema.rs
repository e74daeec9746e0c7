//! Tables, their versions, and opening of files.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error;
use crate::{OpenMode, RESTORE_ADVICE, StoreError};

/// The application ID in the header of the file, `TnSm`. It distinguishes a store from other SQLite files.
const APPLICATION_ID: i32 = 0x546e_536d;

/// The steps from an empty file to the newest schema; `user_version` is the number of applied steps. A released step never
/// changes; new steps are appended.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE commits (only INTEGER PRIMARY KEY CHECK (only = 0), count INTEGER NOT NULL) STRICT;
INSERT INTO commits VALUES (0, 0);
CREATE TABLE jobs (id TEXT PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE studies (id TEXT PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE progress (
    study TEXT PRIMARY KEY,
    next_trial_id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE trials (
    study TEXT NOT NULL,
    id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (study, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX trials_by_revision ON trials (study, revision);
CREATE TABLE measurements (
    study TEXT NOT NULL,
    trial INTEGER NOT NULL,
    first INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (study, trial, first)
) STRICT;
",
    "
ALTER TABLE trials ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN deadline INTEGER;
UPDATE trials SET open = 1 WHERE json_extract(body, '$.state') IN ('REQUESTED', 'ACTIVE', 'STOPPING');
CREATE INDEX open_trials ON trials (study, id) WHERE open = 1;
CREATE INDEX trials_by_deadline ON trials (deadline) WHERE deadline IS NOT NULL;
",
    "
CREATE TABLE summaries (study TEXT PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
",
];

/// The minimal size of a page, and so of an SQLite file that is not empty.
const HEADER_BYTES: u64 = 512;

/// The maximal time that a statement waits for a lock of another process, such as an SQLite tool that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Refuses a missing or empty store in [`OpenMode::Existing`].
pub(super) fn check_presence(path: &Path, mode: OpenMode) -> Result<(), StoreError> {
    let is_there = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
    if is_there || mode == OpenMode::Create {
        return Ok(());
    }
    let what = if path.exists() { "the file is empty" } else { "the file is missing" };
    Err(StoreError::Damaged { path: path.to_owned(), detail: format!("{what}; {RESTORE_ADVICE}") })
}

/// Opens the file for the only writer, and migrates its schema.
pub(super) fn open_for_writing(path: &Path, mode: OpenMode) -> Result<Connection, StoreError> {
    let failed = |source| error::not_applied(path, "open its file", source);
    let is_new = path.metadata().map_or(true, |metadata| metadata.len() == 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    if check_version(&connection, path)? == 0 && mode == OpenMode::Existing {
        return Err(not_a_store(path));
    }
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(failed)?;
    // FULL syncs the log at every commit; with NORMAL a power cut would lose acknowledged changes.
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    migrate(&mut connection).map_err(failed)?;
    if is_new {
        sync_folder(path).map_err(|source| StoreError::NotApplied {
            operation: "make its file durable",
            source: Box::new(source),
        })?;
    }
    Ok(connection)
}

/// The number of committed groups of changes.
pub(super) fn commit_count(connection: &Connection) -> rusqlite::Result<u64> {
    let count = connection.query_row("SELECT count FROM commits", [], |row| row.get::<_, i64>(0))?;
    Ok(count.cast_unsigned())
}

/// Opens the file for reading.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let failed = |source| error::not_applied(path, "open its file", source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    if check_version(&connection, path)? == 0 {
        return Err(not_a_store(path));
    }
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Without the query planner stability guarantee SQLite compiles a statement again whenever another value is bound to a
    // parameter that its planner has looked at (docs/experiments/070).
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Detects inconsistent pages when they are read.
    connection.pragma_update(None, "cell_size_check", true)
}

/// The schema version, 0 for a file without tables.
fn check_version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let failed = |source| error::not_applied(path, "read its version", source);
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(failed);
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let size_bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let known = MIGRATIONS.len();
    match usize::try_from(version) {
        // SQLite treats a file that is shorter than a header as empty, and would overwrite it.
        Ok(0) if application == 0 && tables == 0 && !(1..HEADER_BYTES).contains(&size_bytes) => Ok(0),
        Ok(version) if application == APPLICATION_ID && (1..=known).contains(&version) => Ok(version),
        Ok(version) if application == APPLICATION_ID && version > known => {
            Err(StoreError::TooNew { path: path.to_owned(), found: version as u32, known: known as u32 })
        }
        _ => Err(not_a_store(path)),
    }
}

fn not_a_store(path: &Path) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        detail: format!("it is not a store of this program, or is cut off; {RESTORE_ADVICE}"),
    }
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: usize = transaction.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? as usize;
    if version == MIGRATIONS.len() {
        return Ok(());
    }
    for step in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32)?;
    transaction.commit()
}

/// Syncs the folder of a new file, without which the file may not survive a power cut.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = fs::canonicalize(path)?;
    folder.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
