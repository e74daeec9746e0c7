//! The marker of the kind of store in a folder. It is written once, after the store was created, so that a missing
//! store is detected.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{DataDirError, StoreKind};

const FILE: &str = "STORE";

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
    let (path, new) = (folder.join(FILE), folder.join("STORE.new"));
    let write = || {
        let mut file = File::create(&new)?;
        writeln!(file, "{}", text_of(kind))?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(DataDirError::io("write", &path))
}

fn read(folder: &Path) -> Result<Option<StoreKind>, DataDirError> {
    let path = folder.join(FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DataDirError::io("read", &path)(source)),
    };
    let kind = StoreKind::ALL.into_iter().find(|kind| text.trim_end() == text_of(*kind));
    kind.map(Some).ok_or_else(|| DataDirError::UnknownMarker { path, found: text.trim_end().to_owned() })
}

/// Returns the content of the marker, in format 1.
fn text_of(kind: StoreKind) -> String {
    format!("tunesmith data folder 1, store {kind}")
}
