//! File access that never blocks on pipes, and detection of changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::CollectError;
use super::intake::Intake;

/// Opens `path` for reading and returns it with its metadata. Returns `None` if that fails; every error other than a
/// missing file is noted.
pub(super) fn open(path: &Path, intake: &mut Intake) -> Option<(File, Metadata)> {
    // Without this flag, opening a pipe waits for a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("open flags fit a C int");
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    match opened {
        Ok((file, metadata)) if metadata.is_file() => Some((file, metadata)),
        Ok(_) => {
            intake.note_problem(CollectError::NotAFile { path: path.to_owned() });
            None
        }
        Err(error) => {
            note_io_error(path, error, intake);
            None
        }
    }
}

/// Returns the metadata of `path`, following symbolic links. Errors are handled as in [`open`].
pub(super) fn stat(path: &Path, intake: &mut Intake) -> Option<Metadata> {
    match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) => {
            note_io_error(path, error, intake);
            None
        }
    }
}

/// Notes `error`, unless `path` does not exist: trainers may remove files.
pub(super) fn note_io_error(path: &Path, error: io::Error, intake: &mut Intake) {
    if error.kind() != io::ErrorKind::NotFound {
        intake.note_problem(CollectError::Unreadable { path: path.to_owned(), source: error });
    }
}

/// The identity of a file; it changes if the file is replaced by renaming.
pub(super) type FileId = (u64, u64);

/// Returns the identity of a file.
pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Detects by `stat` alone whether a file or folder must be read again.
///
/// Time stamps are coarse (4 ms on common kernels, seconds elsewhere), so a change in the same tick as the last reading
/// is not visible. A stamp therefore counts as settled only after a second reading with the same stamp.
#[derive(Debug, Default)]
pub(super) struct ChangeWatch {
    stamp: Option<Stamp>,
    settled: bool,
}

/// The result of `stat` that changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: FileId,
    size_bytes: u64,
    modified: (i64, i64),
}

impl ChangeWatch {
    /// Whether the caller must read now. `metadata` must be taken before the reading.
    pub(super) fn must_read(&mut self, metadata: &Metadata) -> bool {
        let stamp = Stamp {
            id: file_id(metadata),
            size_bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        };
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.settled = false;
            return true;
        }
        !std::mem::replace(&mut self.settled, true)
    }

    /// Makes the next call of [`Self::must_read`] return true.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
