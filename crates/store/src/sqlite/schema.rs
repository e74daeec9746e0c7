//! Tables, schema versions, and opening of files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error;
use crate::{OpenMode, RESTORE_ADVICE, StoreError};

/// Application ID in the file header, `TnSt`, which distinguishes stores from other SQLite files.
const APPLICATION_ID: i32 = 0x546e_5374;

/// Application ID before 0.1.0, `TnSm`.
const APPLICATION_ID_BEFORE_RELEASE: i32 = 0x546e_536d;

/// Migrations from an empty file to the newest schema; `user_version` counts the applied ones. Released ones never
/// change; new ones are appended.
const MIGRATIONS: &[&str] = &[include_str!("schema/1_0.1.0.sql")];

/// Minimum page size, and thus the minimum size of a non-empty SQLite file.
const HEADER_BYTES: u64 = 512;

/// Offsets of both numbers in an SQLite header.
const USER_VERSION_OFFSET: u64 = 60;
const APPLICATION_ID_OFFSET: u64 = 68;

/// Maximum wait for a lock of another process, such as an SQLite tool that writes.
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

/// Refuses a store from before 0.1.0 by its header alone: a connection would merge its log into the file.
pub(super) fn check_header(path: &Path, file: &File) -> Result<(), StoreError> {
    let number = |offset| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| i32::from_be_bytes(bytes))
    };
    match (number(APPLICATION_ID_OFFSET), number(USER_VERSION_OFFSET)) {
        (Some(APPLICATION_ID_BEFORE_RELEASE), Some(version)) => Err(before_release(path, version)),
        _ => Ok(()),
    }
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
    // FULL syncs the log at every commit; NORMAL would lose acknowledged changes in a power cut.
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

/// Number of committed groups of changes.
pub(super) fn commit_count(connection: &Connection) -> rusqlite::Result<u64> {
    let count = connection.query_row("SELECT count FROM commits", [], |row| row.get::<_, i64>(0))?;
    Ok(count.cast_unsigned())
}

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
    // Without the query planner stability guarantee, SQLite recompiles a statement whenever a parameter examined by the
    // planner gets another value (docs/experiments/070).
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Detects inconsistent pages on read.
    connection.pragma_update(None, "cell_size_check", true)
}

/// Schema version, 0 for a file without tables.
fn check_version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let failed = |source| error::not_applied(path, "read its version", source);
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(failed);
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let size_bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let known = MIGRATIONS.len();
    if application == APPLICATION_ID_BEFORE_RELEASE {
        return Err(before_release(path, version));
    }
    match usize::try_from(version) {
        // SQLite treats a file shorter than a header as empty, and would overwrite it.
        Ok(0) if application == 0 && tables == 0 && !(1..HEADER_BYTES).contains(&size_bytes) => Ok(0),
        Ok(version) if application == APPLICATION_ID && (1..=known).contains(&version) => Ok(version),
        Ok(version) if application == APPLICATION_ID && version > known => {
            Err(StoreError::TooNew { path: path.to_owned(), found: version as u32, known: known as u32 })
        }
        _ => Err(not_a_store(path)),
    }
}

fn before_release(path: &Path, version: i32) -> StoreError {
    StoreError::BeforeRelease { path: path.to_owned(), found: format!("schema version {version} of that time") }
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

/// Syncs the folder of a new file, which otherwise may not survive a power cut.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = fs::canonicalize(path)?;
    folder.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
