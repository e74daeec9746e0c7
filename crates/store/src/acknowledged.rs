//! Counter of acknowledged changes, in a small file beside a store.
//!
//! Both engines open a log with a truncated or damaged end as if the rest had never existed. Changes are therefore
//! counted within their transaction and, once durable, in this file. A store whose count is below the file's has lost
//! changes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{RESTORE_ADVICE, StoreError, StoreFault};

/// Twenty decimal digits hold any `u64`.
const LENGTH: usize = 20;

#[derive(Debug)]
pub(super) struct Acknowledged {
    path: PathBuf,
    file: File,
    count: Mutex<u64>,
}

impl Acknowledged {
    /// Opens the file `path`, or starts at 0 if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: io::Error| StoreError::not_applied_io("open its count", source);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let text = io::read_to_string(&file).map_err(failed)?;
        let count = match text.parse() {
            Ok(count) => count,
            Err(_) if text.is_empty() => 0,
            Err(_) => {
                let detail = format!("{text:?} is not a count; {RESTORE_ADVICE}");
                return Err(StoreError::Damaged { path: path.to_owned(), detail });
            }
        };
        Ok(Self { path: path.to_owned(), file, count: Mutex::new(count) })
    }

    pub(super) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Checks that the store at `store`, with `stored` changes, contains all acknowledged ones.
    pub(super) fn check(&self, store: &Path, stored: u64) -> Result<(), StoreError> {
        let acknowledged = self.count();
        if stored >= acknowledged {
            return Ok(());
        }
        let (lost, file) = (acknowledged - stored, self.path.display());
        let detail = format!(
            "the last {lost} of {acknowledged} acknowledged changes are lost; {RESTORE_ADVICE}, or remove {file} to go \
             on without them"
        );
        Err(StoreError::Damaged { path: store.to_owned(), detail })
    }

    /// Raises the count to at least `count`.
    pub(super) fn raise(&self, count: u64) -> Result<(), StoreError> {
        let mut present = self.count.lock();
        if count > *present {
            // A single small in-place write: readers see either the old or the new digits.
            self.file
                .write_all_at(format!("{count:0LENGTH$}").as_bytes(), 0)
                .map_err(|source| StoreError::Unknown { source: Box::new(StoreFault::from(&source)) })?;
            *present = count;
        }
        Ok(())
    }
}
