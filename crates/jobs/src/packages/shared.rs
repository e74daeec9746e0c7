//! Package sharing between servers through documents, in addition to local files.
//!
//! Part 0 of a document holds the number of content parts and is stored last. The digest in the name is verified on
//! fetch.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tunesmith_store::StoreError;

use super::{PackageName, Packages, PackagesError, failed};

const KIND: &str = "package";

/// Size of a content part.
const PART_BYTES: usize = 1 << 20;

impl Packages {
    /// Makes a package uploaded to this server available to the others.
    pub async fn publish(&self, name: &PackageName) -> Result<(), PackagesError> {
        let Some(documents) = &self.documents else { return Ok(()) };
        let (path, resource) = (self.find(name)?, name.resource_name());
        let mut file = std::fs::File::open(&path).map_err(failed("read", &path))?;
        let mut parts = 0_u64;
        loop {
            let mut part = Vec::with_capacity(PART_BYTES);
            // Reading a megabyte is faster than a thread switch would be worth, next to the round trip below.
            file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).map_err(failed("read", &path))?;
            if part.is_empty() {
                break;
            }
            parts += 1;
            documents.put(KIND, &resource, parts, part).await?;
        }
        Ok(documents.put(KIND, &resource, 0, parts.to_string().into_bytes()).await?)
    }

    /// Fetches a package from the other servers, unless it is stored locally.
    ///
    /// # Errors
    /// [`PackagesError::NotFound`] if no server has it; [`PackagesError::Store`], [`PackagesError::Io`];
    /// [`PackagesError::OtherContent`] if it is damaged.
    pub async fn fetch(&self, name: &PackageName) -> Result<PathBuf, PackagesError> {
        let Some(documents) = &self.documents else { return self.find(name) };
        let (missing, resource) = (|| PackagesError::NotFound(name.uri()), name.resource_name());
        if let Ok(path) = self.find(name) {
            if !documents.touch(KIND, &resource).await? {
                // Uploaded before there were other servers.
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

    /// Fetches all packages that other servers have and this one lacks.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn fetch_all(&self) -> Result<(), PackagesError> {
        let Some(documents) = &self.documents else { return Ok(()) };
        for (resource, ..) in documents.list(KIND).await? {
            if let Some(name) = PackageName::parse(&format!("{}{resource}", PackageName::SCHEME))? {
                self.fetch(&name).await?;
            }
        }
        Ok(())
    }

    /// Maps the file of an uploaded package on any server to this server's file; other paths are returned unchanged.
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
            // Not the path of an uploaded package.
            Err(_) => Ok(path.to_owned()),
        }
    }

    /// Removes shared packages unused by all servers for `unused_for`, and returns their names.
    pub async fn prune_shared(&self, unused_for: Duration) -> Result<Vec<String>, PackagesError> {
        let Some(documents) = &self.documents else { return Ok(Vec::new()) };
        Ok(documents.remove_unused(KIND, unused_for).await?)
    }
}
