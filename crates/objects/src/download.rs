//! Copies of whole folders.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::{ObjectError, ObjectFolder};

/// Bytes per request.
const PART_BYTES: u64 = 8 << 20;

impl ObjectFolder {
    /// Copies all objects below the folder into the empty local folder `to`: at most `max_files` of `max_bytes` in total.
    /// Returns the number of files; 0 if there is no such folder.
    ///
    /// # Errors
    /// [`ObjectError::TooMany`], [`ObjectError::FolderTooLarge`]; if objects cannot be listed or read, or files not be written.
    pub async fn download(&self, to: &Path, max_files: usize, max_bytes: u64) -> Result<usize, ObjectError> {
        let mut objects = self.list().await?;
        // Stores of objects list a folder itself as an empty object.
        objects.retain(|object| !self.name_of(&object.location).is_empty());
        if objects.len() > max_files {
            return Err(ObjectError::TooMany { url: self.url().to_owned(), found: objects.len(), limit: max_files });
        }
        let total: u64 = objects.iter().map(|object| object.size).sum();
        if total > max_bytes {
            return Err(ObjectError::FolderTooLarge { url: self.url().to_owned(), limit_mib: max_bytes >> 20 });
        }
        for object in &objects {
            // Paths of objects have neither empty segments nor `..`.
            let path = to.join(self.name_of(&object.location));
            let failed = |source| ObjectError::NotWritten { path: path.clone(), source };
            fs::create_dir_all(path.parent().unwrap_or(to)).map_err(failed)?;
            let mut copy = File::create_new(&path).map_err(failed)?;
            let mut size = 0;
            while size < object.size {
                let part = self.read(&object.location, size..object.size.min(size + PART_BYTES)).await?;
                if part.is_empty() {
                    break;
                }
                copy.write_all(&part).map_err(failed)?;
                size += part.len() as u64;
            }
        }
        Ok(objects.len())
    }
}
