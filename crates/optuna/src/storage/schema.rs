//! Tables, schema version, and opening of the file.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::StorageError;

/// Application ID in the file header, `TnOp`.
const APPLICATION_ID: i32 = 0x546e_4f70;

/// Migrations from an empty file to the newest schema; `user_version` counts the applied ones. Released ones never
/// change; new ones are appended.
const MIGRATIONS: &[&str] = &[include_str!("schema/1_0.1.0.sql")];

/// Maximum wait for a lock of another process, such as an SQLite tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Size up to which a file is checked completely before it is used.
const CHECKED_BYTES: u64 = 64 << 20;

/// Opens the file for the only writer, and migrates its schema.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, StorageError> {
    let size_bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = open(path, flags)?;
    let failed = |source| failure(path, source);
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(failed)?;
    // FULL syncs the log at every commit; NORMAL would lose acknowledged changes in a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    migrate(&mut connection).map_err(failed)?;
    if size_bytes == 0 {
        sync_folder(path)
            .map_err(|source| StorageError::NotApplied { operation: "sync its folder", source: Arc::new(source) })?;
    } else if size_bytes <= CHECKED_BYTES {
        let finding: String =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
        if finding != "ok" {
            return Err(StorageError::Damaged { path: path.to_owned(), detail: finding });
        }
    }
    Ok(connection)
}

pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StorageError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StorageError> {
    let failed = |source| failure(path, source);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Detects inconsistent pages on read.
    connection.pragma_update(None, "cell_size_check", true).map_err(failed)?;
    check_version(&connection, path)?;
    Ok(connection)
}

fn check_version(connection: &Connection, path: &Path) -> Result<(), StorageError> {
    let failed = |source| failure(path, source);
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(failed);
    let (application, version, known) = (pragma("application_id")?, pragma("user_version")?, newest_version());
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    match version {
        0 if application == 0 && tables == 0 => Ok(()),
        1.. if application == APPLICATION_ID && version <= known => Ok(()),
        1.. if application == APPLICATION_ID => {
            Err(StorageError::TooNew { path: path.to_owned(), found: version, known })
        }
        _ => Err(StorageError::Damaged { path: path.to_owned(), detail: "its header is that of another file".into() }),
    }
}

fn newest_version() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: usize = transaction.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? as usize;
    if version == MIGRATIONS.len() {
        return Ok(());
    }
    for step in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest_version())?;
    transaction.commit()
}

/// Syncs the folder of a new file, which otherwise may not survive a power cut.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = fs::canonicalize(path)?;
    folder.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn failure(path: &Path, source: rusqlite::Error) -> StorageError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match source.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            StorageError::Damaged { path: path.to_owned(), detail: source.to_string() }
        }
        _ => StorageError::not_applied("open its file")(source),
    }
}
