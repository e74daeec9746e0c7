//! Single files of folders: listing, ranges, and uploads.

use std::fs::File;
use std::io::Read;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::{ObjectError, ObjectFolder};

/// Bytes per request of an upload.
const PART_BYTES: u64 = 8 << 20;

/// File of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFile {
    /// Name within the folder, which may contain slashes.
    pub name: String,
    pub size: u64,
}

impl ObjectFolder {
    /// Lists the files below the folder that `accepts` selects, by name, at most the first `limit` that the store returns.
    /// `None` ends the listing.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub async fn files(
        &self,
        limit: usize,
        mut accepts: impl FnMut(&str) -> Option<bool> + Send,
    ) -> Result<Vec<ObjectFile>, ObjectError> {
        let mut listing = self.store.list(Some(&self.prefix));
        let mut found = Vec::new();
        while let Some(object) = listing.try_next().await.map_err(|error| self.failed("listed", error))? {
            let name = self.name_of(&object.location);
            // Stores of objects list a folder itself as an empty object.
            if name.is_empty() {
                continue;
            }
            let Some(is_accepted) = accepts(name) else { break };
            if is_accepted {
                found.push(ObjectFile { name: name.to_owned(), size: object.size });
            }
            if found.len() >= limit {
                break;
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Size of the object at the address of the folder itself; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn size(&self) -> Result<Option<u64>, ObjectError> {
        if self.prefix.as_ref().is_empty() {
            return Ok(None);
        }
        match self.store.head(&self.prefix).await {
            Ok(object) => Ok(Some(object.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    /// Reads the byte `range` of the object at the address of the folder itself.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read_range(&self, range: std::ops::Range<u64>) -> Result<Vec<u8>, ObjectError> {
        self.read(&self.prefix, range).await
    }

    /// Stores the content of `file`, of `size` bytes, as `name`. The object appears once it is complete.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub async fn upload(&self, name: &str, mut file: File, size: u64) -> Result<(), ObjectError> {
        let path = self.file(name)?;
        let unreadable = |source| ObjectError::Copy { path: name.into(), source };
        // Reading a part is fast next to its request.
        let part = |file: &mut File| {
            let mut bytes = Vec::new();
            Read::take(file, PART_BYTES).read_to_end(&mut bytes).map(|_| PutPayload::from(bytes)).map_err(unreadable)
        };
        if size <= PART_BYTES {
            let whole = part(&mut file)?;
            return self.store.put(&path, whole).await.map(drop).map_err(|error| self.failed("written", error));
        }
        let failed = |error| self.failed("written", error);
        let mut upload = self.store.put_multipart(&path).await.map_err(failed)?;
        loop {
            let next = part(&mut file)?;
            if next.content_length() == 0 {
                break;
            }
            if let Err(error) = upload.put_part(next).await {
                // Parts of an incomplete upload would cost space.
                let _ = upload.abort().await;
                return Err(failed(error));
            }
        }
        upload.complete().await.map(drop).map_err(failed)
    }

    /// Removes the object `name`, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<(), ObjectError> {
        match self.store.delete(&self.file(name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("cleaned up", error)),
        }
    }

    fn file(&self, name: &str) -> Result<Path, ObjectError> {
        Ok(self.join(name)?.prefix)
    }
}
