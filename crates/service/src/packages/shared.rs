//! The packages that several servers share: documents beside the files of each server.
//!
//! Part 0 of a document is the number of the others, which contain the bytes. It is stored last, and the digest in the name
//! is checked when a server fetches the package.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tunesmith_store::StoreError;

use super::{PackageName, Packages, PackagesError, failed};

/// The kind of the documents.
const KIND: &str = "package";

/// The size of a part.
const PART_BYTES: usize = 1 << 20;

impl Packages {
    /// Stores the package `name`, which was uploaded to this server, for the others.
    ///
    /// # Errors
    /// [`PackagesError::Store`], [`PackagesError::Io`].
    pub async fn publish(&self, name: &PackageName) -> Result<(), PackagesError> {
        let Some(documents) = &self.documents else { return Ok(()) };
        let (path, resource) = (self.find(name)?, name.resource_name());
        let mut file = std::fs::File::open(&path).map_err(failed("read", &path))?;
        let mut parts = 0_u64;
        loop {
            let mut part = Vec::with_capacity(PART_BYTES);
            // A megabyte is read in less time than a change of thread is worth beside the round trip that follows.
            file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).map_err(failed("read", &path))?;
            if part.is_empty() {
                break;
            }
            parts += 1;
            documents.put(KIND, &resource, parts, part).await?;
        }
        Ok(documents.put(KIND, &resource, 0, parts.to_string().into_bytes()).await?)
    }

    /// Fetches the package `name` from the other servers, unless this one has it.
    ///
    /// # Errors
    /// [`PackagesError::NotFound`] if no server has it; [`PackagesError::Store`], [`PackagesError::Io`];
    /// [`PackagesError::OtherContent`] if it is damaged.
    pub async fn fetch(&self, name: &PackageName) -> Result<PathBuf, PackagesError> {
        let Some(documents) = &self.documents else { return self.find(name) };
        let (missing, resource) = (|| PackagesError::NotFound { name: name.uri() }, name.resource_name());
        if let Ok(path) = self.find(name) {
            if !documents.touch(KIND, &resource).await? {
                // It was uploaded before there were other servers.
                self.publish(name).await?;
            }
            return Ok(path);
        }
        if !documents.touch(KIND, &resource).await? {
            return Err(missing());
        }
        let head = documents.part(KIND, &resource, 0).await?.ok_or_else(missing)?;
        let parts: u64 = std::str::from_utf8(&head).ok().and_then(|text| text.parse().ok()).ok_or_else(missing)?;
        let mut upload = self.begin(name.clone())?;
        for part in 1..=parts {
            let body = documents.part(KIND, &resource, part).await?.ok_or_else(missing)?;
            upload.write(&body)?;
        }
        tokio::task::spawn_blocking(move || upload.finish()).await.map_err(|source| {
            PackagesError::Store(StoreError::NotApplied { operation: "fetch a package", source: source.into() })
        })??;
        self.find(name)
    }

    /// Fetches the package that `uri` names, if it is that of a package of this service.
    ///
    /// # Errors
    /// As [`Self::fetch`], and [`PackagesError::Name`].
    pub async fn fetch_uri(&self, uri: &str) -> Result<(), PackagesError> {
        match PackageName::parse(uri)? {
            Some(name) if self.documents.is_some() => self.fetch(&name).await.map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Returns the file of this server for `path`, the file of an uploaded package of `project` on any server. Another path is
    /// returned unchanged.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn local_path(&self, project: &str, path: &str) -> Result<String, PackagesError> {
        if self.documents.is_none() || Path::new(path).exists() {
            return Ok(path.to_owned());
        }
        let mut parts = Path::new(path).iter().rev().map(|part| part.to_str().unwrap_or_default());
        let (file_name, sha256, of) = (parts.next(), parts.next(), parts.next());
        let (Some(file_name), Some(sha256), Some("packages")) = (file_name, sha256, parts.next()) else {
            return Ok(path.to_owned());
        };
        if of != Some(project) {
            return Ok(path.to_owned());
        }
        match PackageName::new(project, sha256, file_name) {
            Ok(name) => Ok(self.fetch(&name).await?.display().to_string()),
            // Such a path is not that of an uploaded package.
            Err(_) => Ok(path.to_owned()),
        }
    }

    /// Removes the shared packages that no job of any server has used for `unused_for`. Returns their names.
    ///
    /// # Errors
    /// [`PackagesError::Store`].
    pub async fn prune_shared(&self, unused_for: Duration) -> Result<Vec<String>, PackagesError> {
        let Some(documents) = &self.documents else { return Ok(Vec::new()) };
        Ok(documents.remove_unused(KIND, unused_for).await?)
    }
}
