//! The marker of the kind of store in a folder. It is written once, after the store was created, so that a missing
//! store is detected.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{DataDirError, StoreKind};
use tunesmith_store::StoreError;

const FILE: &str = "STORE";

/// The start of the markers of versions before 0.1.0.
const BEFORE_RELEASE: &str = "tunesmith data folder 1, ";

/// Returns the kind of store in `folder`, from its marker, or from the store if the first start ended before the marker
/// was written; `None` in a new folder.
pub(super) fn held_kind(folder: &Path) -> Result<Option<StoreKind>, DataDirError> {
    if let Some(kind) = read(folder)? {
        return Ok(Some(kind));
    }
    let is_there = |kind: &StoreKind| kind.file_name().is_some_and(|name| folder.join(name).exists());
    Ok(StoreKind::ALL.into_iter().find(is_there))
}

/// Whether the marker exists.
pub(super) fn is_written(folder: &Path) -> Result<bool, DataDirError> {
    Ok(read(folder)?.is_some())
}

/// Writes the marker durably.
pub(super) fn write(folder: &Path, kind: StoreKind) -> Result<(), DataDirError> {
    replace(folder, FILE, &format!("{}\n", text_of(kind)))
}

/// Replaces the file `name` of `folder` durably, as a whole.
pub(super) fn replace(folder: &Path, name: &str, content: &str) -> Result<(), DataDirError> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(DataDirError::io("write", &path))
}

fn read(folder: &Path) -> Result<Option<StoreKind>, DataDirError> {
    let path = folder.join(FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DataDirError::io("read", &path)(source)),
    };
    if text.starts_with(BEFORE_RELEASE) {
        let found = format!("{FILE} contains {text:?}");
        return Err(StoreError::BeforeRelease { path: folder.to_owned(), found }.into());
    }
    let kind = StoreKind::ALL.into_iter().find(|kind| text == text_of(*kind));
    kind.map(Some).ok_or(DataDirError::UnknownMarker { path, found: text })
}

/// Returns the content of the marker. It names the first version with this form of the folder.
fn text_of(kind: StoreKind) -> String {
    format!("tunesmith data folder of 0.1.0, store {kind}")
}
