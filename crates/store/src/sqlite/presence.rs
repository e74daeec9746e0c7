//! The lock on the file of a store, and the check that the open files are still those of its path.
//!
//! A file that was removed or replaced takes writes without an error, and so does one that was emptied or overwritten in
//! place; but the changes are lost with the process. Therefore the files are compared with their state after the former
//! commit, before each commit and once more before it is acknowledged. SQLite changes the main file only in checkpoints,
//! which the writer makes within its commits: any other change is made by another program.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Statx, StatxFlags, flock, statx};
use rustix::io::Errno;

use super::beside;
use crate::{OpenMode, StoreError, StoreFault};

/// An exclusive lock on the file of a store, until it is dropped.
///
/// It also keeps the file open: closing any descriptor of a file releases SQLite's own locks on it in this process, so
/// this value is dropped after the last connection.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Locks the file `path`, and creates it in [`OpenMode::Create`].
    ///
    /// # Errors
    /// [`StoreError::InUse`]; [`StoreError::NotApplied`] if the file cannot be opened.
    pub(super) fn take(path: &Path, mode: OpenMode) -> Result<Arc<Self>, StoreError> {
        // A child process that another process was starting when it ended has a copy of its lock until it runs its program.
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
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being started has a copy of the descriptor.
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(error = %error, "the lock of the store is only released when this process ends");
        }
    }
}

/// The files of an open store, as they were after its last commit.
#[derive(Debug)]
pub(super) struct Presence {
    files: [Watched; 2],
    _lock: Arc<FileLock>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    known: Stamp,
    /// Whether only commits of this process change the modification time.
    is_ours: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: (u32, u32),
    inode: u64,
    size_bytes: u64,
    /// `None` for a file whose time is not compared.
    modified: Option<(i64, u32)>,
}

impl Presence {
    /// The present files of the store at `path`.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub(super) fn new(path: &Path, lock: Arc<FileLock>) -> io::Result<Self> {
        let watched = |path: PathBuf, is_ours| {
            let known = Stamp::of(&path, is_ours)?;
            Ok::<_, io::Error>(Watched { path, known, is_ours })
        };
        Ok(Self { files: [watched(path.to_owned(), true)?, watched(beside(path, "-wal"), false)?], _lock: lock })
    }

    /// Checks that no other program has changed the files since the last call of [`Self::renew`].
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        self.files.iter().try_for_each(|file| file.compare(true).map(|_| ()))
    }

    /// Checks that the files are those that were opened, and remembers their state.
    pub(super) fn renew(&mut self) -> Result<(), StoreFault> {
        for file in &mut self.files {
            file.known = file.compare(false)?;
        }
        Ok(())
    }

    /// Remembers the state of the files after the log was merged into the file and truncated.
    pub(super) fn renew_after_merge(&mut self) -> Result<(), StoreFault> {
        self.files[1].known.size_bytes = 0;
        self.renew()
    }
}

impl Watched {
    fn compare(&self, is_at_rest: bool) -> Result<Stamp, StoreFault> {
        let now = match Stamp::of(&self.path, self.is_ours) {
            Ok(now) => now,
            Err(Errno::NOENT) => return Err(self.fault("was removed")),
            Err(error) => return Err(self.fault(&format!("cannot be examined ({error})"))),
        };
        if (now.device, now.inode) != (self.known.device, self.known.inode) {
            return Err(self.fault("was replaced"));
        }
        if now.size_bytes < self.known.size_bytes {
            return Err(self.fault(if now.size_bytes == 0 { "was emptied" } else { "was truncated" }));
        }
        if is_at_rest && self.is_ours && now != self.known {
            return Err(self.fault("was changed by another program"));
        }
        Ok(now)
    }

    fn fault(&self, what: &str) -> StoreFault {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).display();
        StoreFault::NotTheSame {
            detail: format!(
                "{name} {what} while the store was open; put the file back, or restore a backup, and restart"
            ),
        }
    }
}

impl Stamp {
    /// The present state of the file `path`, with its modification time if `timed`.
    ///
    /// After the time of a file was read, Linux gives its next write a new time, which the next sync has to write as well: a
    /// commit takes twice as long if the time of the log is read (docs/experiments/070).
    fn of(path: &Path, timed: bool) -> rustix::io::Result<Self> {
        let mask = StatxFlags::INO | StatxFlags::SIZE;
        let mask = if timed { mask | StatxFlags::MTIME } else { mask };
        let found: Statx = statx(CWD, path, AtFlags::empty(), mask)?;
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            size_bytes: found.stx_size,
            modified: timed.then_some((found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec)),
        })
    }
}
