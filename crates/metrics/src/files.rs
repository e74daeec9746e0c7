//! File access with notes about problems, and detection of changes.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use super::CollectError;
use super::intake::Intake;
use tunesmith_files::{OpenError, RootedPath};

/// Opens the regular file `place` for reading and returns it with its metadata. Returns `None` if that fails; every
/// error other than a missing file is noted.
pub(super) fn open(place: &RootedPath, intake: &mut Intake) -> Option<(File, Metadata)> {
    let opened =
        place.open().and_then(|file| file.metadata().map(|metadata| (file, metadata)).map_err(OpenError::from));
    noted(place, opened, intake)
}

/// Returns the metadata of `place`; those of a link itself. Errors are handled as in [`open`].
pub(super) fn stat(place: &RootedPath, intake: &mut Intake) -> Option<Metadata> {
    noted(place, place.metadata(), intake)
}

fn noted<T>(place: &RootedPath, result: Result<T, OpenError>, intake: &mut Intake) -> Option<T> {
    result.map_err(|error| note_error(place, error, intake)).ok()
}

/// Notes `error`, unless `place` does not exist: trainers may remove files.
pub(super) fn note_error(place: &RootedPath, error: impl Into<OpenError>, intake: &mut Intake) {
    match error.into() {
        error if error.is_not_found() => {}
        OpenError::Io(source) => intake.note_problem(CollectError::Unreadable { path: place.path(), source }),
        OpenError::NotRegular | OpenError::ImpossibleName | OpenError::TooLarge { .. } => {
            intake.note_problem(CollectError::NotAFile { path: place.path() });
        }
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
