//! Checks that a store's open files are still those at its path, unmodified by other programs.
//!
//! A removed, replaced, truncated or overwritten file accepts writes without an error, but the changes are lost with
//! the process. Therefore the files are compared with their state after the previous commit, before each commit and
//! again before acknowledging it. SQLite changes the main file only in checkpoints, which the writer runs within its
//! commits; any other change is external.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

use super::beside;
use crate::StoreFault;
use crate::file_lock::FileLock;

/// Files of an open store, as of its last commit.
#[derive(Debug)]
pub(super) struct Presence {
    files: [Watched; 2],
    _lock: Arc<FileLock>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    known: Stamp,
    /// Whether only this process's commits change the modification time.
    is_ours: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: (u32, u32),
    inode: u64,
    size_bytes: u64,
    /// `None` if the time is not compared.
    modified: Option<(i64, u32)>,
}

impl Presence {
    /// Captures the current files.
    pub(super) fn new(path: &Path, lock: Arc<FileLock>) -> io::Result<Self> {
        let watched = |path: PathBuf, is_ours| {
            let known = Stamp::of(&path, is_ours)?;
            Ok::<_, io::Error>(Watched { path, known, is_ours })
        };
        Ok(Self { files: [watched(path.to_owned(), true)?, watched(beside(path, "-wal"), false)?], _lock: lock })
    }

    /// Checks that no other program has changed the files since the last [`Self::renew`].
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        self.files.iter().try_for_each(|file| file.compare(true).map(|_| ()))
    }

    /// Checks that the files are those opened, and records their state.
    pub(super) fn renew(&mut self) -> Result<(), StoreFault> {
        for file in &mut self.files {
            file.known = file.compare(false)?;
        }
        Ok(())
    }

    /// Records the state of the files after the log was merged and truncated.
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
    /// Current state of the file, with its modification time if `timed`.
    ///
    /// After reading a file's time, Linux updates it on the next write, and the next sync must write it too: reading
    /// the log's time doubles the duration of a commit (docs/experiments/070).
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
