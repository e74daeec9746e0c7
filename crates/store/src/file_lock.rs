use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{OpenMode, StoreError};

/// Exclusive lock on a store's file, released on drop.
///
/// Also keeps the file open: closing any descriptor of a file releases SQLite's own locks on it in this process, so
/// drop this after the last connection.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks the file `path`, creating it in [`OpenMode::Create`].
    pub(crate) fn take(path: &Path, mode: OpenMode) -> Result<Arc<Self>, StoreError> {
        // A child being spawned by a process that has just ended holds a copy of its lock until exec.
        const PAUSE: Duration = Duration::from_millis(5);
        const MAX_PAUSES: usize = 200;
        let failed = |source: io::Error| StoreError::not_applied_io("open its file", source);
        let mut options = File::options();
        options.read(true).write(true).create(mode == OpenMode::Create).truncate(false);
        let file = options.open(path).map_err(failed)?;
        for _ in 0..MAX_PAUSES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Arc::new(Self(file))),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(StoreError::InUse { path: path.to_owned() })
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child being spawned has a copy of the descriptor.
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(error = %error, "the lock of the store is only released when this process ends");
        }
    }
}
