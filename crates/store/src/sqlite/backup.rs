//! Copy of an SQLite file that is in use.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::error;
use crate::StoreError;

/// All pages in one step: with several, each change by another process would restart the copy.
const ALL_PAGES: i32 = -1;

/// Copies the SQLite file `from`, of a store or of another application, to the new file `to`: its state at one time, while
/// other processes may change it. Checks the structure of the copy. Blocks; call it off the async runtime.
///
/// # Errors
/// [`StoreError::Damaged`], [`StoreError::NotApplied`]. The caller removes `to`.
pub fn back_up(from: &Path, to: &Path) -> Result<(), StoreError> {
    let read = |source| error::not_applied(from, "be copied", source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(read)?;
    let write = |source| error::not_applied(to, "be written", source);
    let mut target = Connection::open(to).map_err(write)?;
    {
        let backup = Backup::new(&source, &mut target).map_err(read)?;
        // A writer that restores the log file holds its lock for milliseconds.
        while backup.step(ALL_PAGES).map_err(read)? != StepResult::Done {
            std::thread::yield_now();
        }
    }
    let finding: String = target.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(write)?;
    if finding != "ok" {
        return Err(StoreError::Damaged { path: from.to_owned(), detail: format!("its copy has damage: {finding}") });
    }
    target.close().map_err(|(_, source)| write(source))
}
