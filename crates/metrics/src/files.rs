//! File access that records problems, and change detection.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use super::CollectError;
use super::intake::Intake;
use tunesmith_files::{OpenError, RootedPath};

/// Opens the regular file `place` and returns it with its metadata. Failures give `None` and are recorded, except for a
/// missing file.
pub(super) fn open(place: &RootedPath, intake: &mut Intake) -> Option<(File, Metadata)> {
    let opened =
        place.open().and_then(|file| file.metadata().map(|metadata| (file, metadata)).map_err(OpenError::from));
    noted(place, opened, intake)
}

/// Returns the metadata of `place`, without following a link. Errors are handled as in [`open`].
pub(super) fn stat(place: &RootedPath, intake: &mut Intake) -> Option<Metadata> {
    noted(place, place.metadata(), intake)
}

fn noted<T>(place: &RootedPath, result: Result<T, OpenError>, intake: &mut Intake) -> Option<T> {
    result.map_err(|error| note_error(place, error, intake)).ok()
}

/// Records `error`, unless `place` does not exist: trainers may remove files.
pub(super) fn note_error(place: &RootedPath, error: impl Into<OpenError>, intake: &mut Intake) {
    match error.into() {
        error if error.is_not_found() => {}
        OpenError::Io(source) => intake.note_problem(CollectError::Unreadable { path: place.path(), source }),
        OpenError::NotRegular | OpenError::ImpossibleName | OpenError::TooLarge { .. } => {
            intake.note_problem(CollectError::NotAFile { path: place.path() });
        }
    }
}

/// Device and inode; a file replaced by renaming gets another one.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Detects changes of a file or folder by `stat` alone.
///
/// Time stamps are coarse (4 ms on common kernels, seconds elsewhere), so a change within the tick of the last read is
/// invisible. A stamp therefore counts as settled only after two reads with the same stamp.
#[derive(Debug, Default)]
pub(super) struct ChangeWatch {
    stamp: Option<Stamp>,
    settled: bool,
}

/// Result of `stat` that changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: FileId,
    size_bytes: u64,
    modified: (i64, i64),
}

impl ChangeWatch {
    /// Whether a read is due. `metadata` must have been obtained before the read.
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

    /// Makes the next [`Self::must_read`] return true.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
