//! Opening what a trainer left, without blocking on it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::CollectError;
use super::intake::Intake;

/// Opens `path` for reading, with its metadata. A file that is not there is no problem, and none is returned for it;
/// anything else is noted.
pub(super) fn open(path: &Path, intake: &mut Intake) -> Option<(File, Metadata)> {
    // Without the flag, opening a pipe would wait for a writer for ever.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("an open flag fits the C int it is made for");
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

/// The metadata of `path`, symbolic links followed. Problems as for [`open`].
pub(super) fn stat(path: &Path, intake: &mut Intake) -> Option<Metadata> {
    match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) => {
            note_io_error(path, error, intake);
            None
        }
    }
}

/// Notes `error`, unless it says that `path` does not exist: trainers remove files, too.
pub(super) fn note_io_error(path: &Path, error: io::Error, intake: &mut Intake) {
    if error.kind() != io::ErrorKind::NotFound {
        intake.note_problem(CollectError::Unreadable { path: path.to_owned(), source: error });
    }
}

/// Which file it is; another one if it was replaced by renaming.
pub(super) type FileId = (u64, u64);

/// The identity of a file.
pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Tells by `stat` alone whether a file or folder must be read again.
///
/// Time stamps are coarse (4 ms on common kernels, seconds elsewhere): a change in the same tick as the last reading is
/// not visible. So a stamp counts as settled only once a second reading found it unchanged.
#[derive(Debug, Default)]
pub(super) struct ChangeWatch {
    stamp: Option<Stamp>,
    settled: bool,
}

/// What `stat` says of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: FileId,
    size_bytes: u64,
    modified: (i64, i64),
}

impl ChangeWatch {
    /// Whether to read now; `metadata` must be taken before the reading. `true` means that the caller does read.
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

    /// Makes the next question answer yes.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
