//! Integrity check of the file, after an unclean shutdown or whenever the file is small enough.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{beside, error, schema};
use crate::{RESTORE_ADVICE, StoreError};

/// Size up to which files are always checked before opening; larger ones would delay the start.
const CHECKED_AT_OPEN_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Health {
    path: PathBuf,
    damage: OnceLock<String>,
}

impl Health {
    /// Checks the file's structure: immediately if it is small, in the background if it is large and `unclean`.
    pub(super) fn check(path: &Path, unclean: bool) -> Result<Arc<Self>, StoreError> {
        let health = Arc::new(Self { path: path.to_owned(), damage: OnceLock::new() });
        health.check_by_size(unclean)?;
        Ok(health)
    }

    /// Rechecks the file's structure after a failure of its medium: immediately if it is small, else in the background.
    pub(super) fn check_again(self: &Arc<Self>) -> Result<(), StoreError> {
        self.check_by_size(true)
    }

    fn check_by_size(self: &Arc<Self>, unclean: bool) -> Result<(), StoreError> {
        let size_bytes = self.path.metadata().map_or(0, |metadata| metadata.len());
        if size_bytes <= CHECKED_AT_OPEN_BYTES {
            self.run()?;
            return self.ok();
        }
        if unclean {
            tracing::info!(store.path = %self.path.display(), size_bytes, "checking the store in the background");
            let health = Arc::clone(self);
            let checked = std::thread::Builder::new().name("store check".into()).spawn(move || health.run_logged());
            checked.map_err(|source| StoreError::NotApplied { operation: "start a thread", source: source.into() })?;
        }
        Ok(())
    }

    /// Fails once damage is found.
    pub(super) fn ok(&self) -> Result<(), StoreError> {
        match self.damage.get() {
            None => Ok(()),
            Some(detail) => {
                Err(StoreError::Damaged { path: self.path.clone(), detail: format!("{detail}; {RESTORE_ADVICE}") })
            }
        }
    }

    fn run_logged(&self) {
        if let Err(error) = self.run().and_then(|()| self.ok()) {
            tracing::error!(store.path = %self.path.display(), error = %error, "the store cannot be used");
            // A check that cannot complete, for example on a read error, also condemns the file.
            self.damage.get_or_init(|| error.to_string());
        }
    }

    fn run(&self) -> Result<(), StoreError> {
        let connection = schema::open_for_reading(&self.path)?;
        // `quick_check` does not compare indices with their tables, and a flipped byte in an index hides trials.
        let finding: String = connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(|source| error::not_applied(&self.path, "check itself", source))?;
        if finding != "ok" {
            self.damage.get_or_init(|| finding);
        }
        Ok(())
    }
}

/// Whether the last process ended without closing the store, which removes the write-ahead log.
pub(super) fn was_left_open(path: &Path) -> bool {
    beside(path, "-wal").metadata().is_ok_and(|metadata| metadata.len() > 0)
}
