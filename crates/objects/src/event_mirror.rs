//! Local mirror of a trial's event files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use object_store::ObjectMeta;

use super::{ObjectError, ObjectFolder};

/// Maximum mirror size per trial in bytes. A guess: a thousand times the scalars of a long training; images in event
/// files may exceed it.
pub const MAX_MIRROR_BYTES: u64 = 1 << 30;

/// Bytes per request.
const PART_BYTES: u64 = 8 << 20;

/// Maximum length of a file name; file systems allow 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// Suffix of a folder that holds the rest of a long name.
const CONTINUED: &str = "%+";

/// Common part of the file names written by TensorFlow, torch and tensorboardX.
const NAME_PART: &str = "tfevents";

/// Mirrors the event files below an object store folder to a local one.
///
/// Objects that have grown are read from the end of their copy; objects that have shrunk were replaced, and are
/// copied again. The copies are the only progress record, so another process can continue.
#[derive(Debug)]
pub struct EventMirror {
    objects: ObjectFolder,
    copies: PathBuf,
    limit: u64,
}

impl EventMirror {
    /// Creates a mirror of `objects` in the folder `copies`, which is created when needed. No IO.
    pub fn new(objects: ObjectFolder, copies: PathBuf) -> Self {
        Self { objects, copies, limit: MAX_MIRROR_BYTES }
    }

    pub fn copies(&self) -> &Path {
        &self.copies
    }

    /// Copies what was added since the last call. Returns whether anything was.
    ///
    /// # Errors
    /// If objects cannot be listed or read, or copies cannot be written. The next call continues.
    pub async fn update(&self) -> Result<bool, ObjectError> {
        let mut objects = self.objects.list().await?;
        objects.retain(|object| object.location.filename().is_some_and(|name| name.contains(NAME_PART)));
        let mut free_bytes = self.limit;
        let mut has_grown = false;
        for object in &objects {
            free_bytes = free_bytes.checked_sub(object.size).ok_or_else(|| ObjectError::TooLarge {
                url: self.objects.url().to_owned(),
                limit_mib: self.limit >> 20,
            })?;
            has_grown |= self.copy(object).await?;
        }
        Ok(has_grown)
    }

    /// Appends missing bytes to the copy of `object`. Returns whether any were missing.
    async fn copy(&self, object: &ObjectMeta) -> Result<bool, ObjectError> {
        let path = self.copies.join(path_of_copy(self.objects.name_of(&object.location)));
        let mut size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if size == object.size {
            return Ok(false);
        }
        let failed = |source| ObjectError::Copy { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(&self.copies)).map_err(failed)?;
        if size > object.size {
            // A new file, so that a reader does not continue in the middle of the old one.
            fs::remove_file(&path).map_err(failed)?;
            size = 0;
        }
        let mut copy: File = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        while size < object.size {
            let end = object.size.min(size + PART_BYTES);
            let part = self.objects.read(&object.location, size..end).await?;
            if part.is_empty() {
                break;
            }
            copy.write_all(&part).map_err(failed)?;
            size += part.len() as u64;
        }
        Ok(true)
    }

    /// Deletes the copies.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self) -> std::io::Result<()> {
        match fs::remove_dir_all(&self.copies) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Relative path of the copy of object `name`, with `/` escaped as `%2F` and `%` as `%25`, since an object may share
/// its name with another one's folder. Long names continue in folders ending in [`CONTINUED`], which no escaped name
/// does.
fn path_of_copy(name: &str) -> PathBuf {
    let escaped = name.replace('%', "%25").replace('/', "%2F");
    let mut path = PathBuf::new();
    let mut rest = escaped.as_str();
    while rest.len() > MAX_NAME_BYTES {
        let cut = (0..=MAX_NAME_BYTES).rev().find(|cut| rest.is_char_boundary(*cut)).unwrap_or(rest.len());
        path.push(format!("{}{CONTINUED}", &rest[..cut]));
        rest = &rest[cut..];
    }
    // The last part keeps the marker of event files.
    path.push(if rest.contains(NAME_PART) { rest.to_owned() } else { format!("{rest}%-{NAME_PART}") });
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_distinct_names_without_slashes() {
        assert_eq!(path_of_copy("a/b%2Fc.tfevents"), PathBuf::from("a%2Fb%252Fc.tfevents"));
        let long = path_of_copy(&("ä/".repeat(100) + "tfevents"));
        let parts: Vec<String> = long.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        assert!(parts.iter().all(|part| part.len() <= MAX_NAME_BYTES + CONTINUED.len() + 10), "{parts:?}");
        let (last, folders) = parts.split_last().unwrap();
        let joined: String =
            folders.iter().map(|part| part.strip_suffix(CONTINUED).unwrap()).collect::<String>() + last;
        assert_eq!(joined.replace("%2F", "/"), "ä/".repeat(100) + "tfevents");
    }
}
