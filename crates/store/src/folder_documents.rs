//! Documents of a single server: files of a folder.
//!
//! ```text
//! <root>/<kind>/<name>/<part>       the age of a document is that of its part 0
//! ```
//!
//! Names are percent-encoded.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::StoreError;
use crate::sharing::Documents;

/// Suffix of a file that is being written.
const UNFINISHED: &str = ".new";

/// Documents in a folder that only this process changes.
#[derive(Debug, Clone)]
pub struct FolderDocuments(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    root: PathBuf,
    /// Serializes changes.
    changes: Mutex<()>,
}

impl FolderDocuments {
    /// Documents below `root`, which is created on demand.
    pub fn new(root: PathBuf) -> Self {
        Self(Arc::new(Folder { root, changes: Mutex::new(()) }))
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
        done.map_err(|source| StoreError::NotApplied { operation, source: source.into() })
    }
}

impl Folder {
    fn document(&self, kind: &str, name: &str) -> PathBuf {
        self.root.join(encoded(kind)).join(encoded(name))
    }

    fn write(&self, kind: &str, name: &str, part: u64, body: &[u8]) -> io::Result<()> {
        let folder = self.document(kind, name);
        let is_new = !folder.exists();
        fs::create_dir_all(&folder)?;
        let (path, unfinished) = (folder.join(part.to_string()), folder.join(format!("{part}{UNFINISHED}")));
        let mut file = File::create(&unfinished)?;
        file.write_all(body)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        sync(&folder)?;
        for parent in folder.ancestors().skip(1).take(if is_new { 2 } else { 0 }) {
            sync(parent)?;
        }
        Ok(())
    }

    fn read(&self, kind: &str, name: &str, part: u64) -> io::Result<Option<Vec<u8>>> {
        optional(fs::read(self.document(kind, name).join(part.to_string())))
    }

    fn remove(&self, kind: &str, name: &str) -> io::Result<()> {
        let folder = self.document(kind, name);
        // Without part 0, the document does not exist.
        optional(fs::remove_file(folder.join("0")))?;
        optional(fs::remove_dir_all(&folder)).map(drop)
    }

    /// Names of the documents of `kind`, in order.
    fn names(&self, kind: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in optional(fs::read_dir(self.root.join(encoded(kind))))?.into_iter().flatten() {
            names.extend(entry?.file_name().to_str().and_then(decoded));
        }
        names.sort();
        Ok(names)
    }

    fn list_after(&self, kind: &str, after: &str, limit: usize) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut found = Vec::new();
        for name in self.names(kind)?.into_iter().filter(|name| name.as_str() > after) {
            if found.len() >= limit {
                break;
            }
            // It may have been removed meanwhile.
            if let Some(body) = self.read(kind, &name, 0)? {
                found.push((name, body));
            }
        }
        Ok(found)
    }

    fn list(&self, kind: &str) -> io::Result<Vec<(String, Vec<u8>, Duration)>> {
        let mut found = Vec::new();
        for name in self.names(kind)? {
            let path = self.document(kind, &name).join("0");
            let (Some(body), Some(metadata)) = (optional(fs::read(&path))?, optional(fs::metadata(&path))?) else {
                continue;
            };
            let age = SystemTime::now().duration_since(metadata.modified()?).unwrap_or_default();
            found.push((name, body, age));
        }
        Ok(found)
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn optional<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    encoded
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[async_trait]
impl Documents for FolderDocuments {
    async fn put(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("store a document", move |folder| {
            let _changing = folder.changes.lock();
            folder.write(&kind, &name, part, &body)
        })
        .await
    }

    async fn get_or_put(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("store a document", move |folder| {
            let _changing = folder.changes.lock();
            if let Some(stored) = folder.read(&kind, &name, 0)? {
                return Ok(stored);
            }
            folder.write(&kind, &name, 0, &body)?;
            Ok(body)
        })
        .await
    }

    async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("replace a document", move |folder| {
            let _changing = folder.changes.lock();
            if folder.read(&kind, &name, 0)? != expected {
                return Ok(false);
            }
            folder.write(&kind, &name, 0, &body)?;
            Ok(true)
        })
        .await
    }

    async fn part(&self, kind: &str, name: &str, part: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("read a document", move |folder| folder.read(&kind, &name, part)).await
    }

    async fn list(&self, kind: &str) -> Result<Vec<(String, Vec<u8>, Duration)>, StoreError> {
        let kind = kind.to_owned();
        self.run("list documents", move |folder| folder.list(&kind)).await
    }

    async fn list_after(&self, kind: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let (kind, after) = (kind.to_owned(), after.to_owned());
        self.run("list documents", move |folder| folder.list_after(&kind, &after, limit)).await
    }

    async fn touch(&self, kind: &str, name: &str) -> Result<bool, StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("note the use of a document", move |folder| {
            let _changing = folder.changes.lock();
            let opened = optional(File::options().write(true).open(folder.document(&kind, &name).join("0")))?;
            opened.map(|file| file.set_modified(SystemTime::now())).transpose().map(|touched| touched.is_some())
        })
        .await
    }

    async fn remove_unused(&self, kind: &str, unused_for: Duration) -> Result<Vec<String>, StoreError> {
        let kind = kind.to_owned();
        self.run("remove unused documents", move |folder| {
            let _changing = folder.changes.lock();
            let listed = folder.list(&kind)?.into_iter().filter(|(_, _, age)| *age >= unused_for);
            let names: Vec<String> = listed.map(|(name, ..)| name).collect();
            for name in &names {
                folder.remove(&kind, name)?;
            }
            Ok(names)
        })
        .await
    }

    async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("remove a document", move |folder| {
            let _changing = folder.changes.lock();
            folder.remove(&kind, &name)
        })
        .await
    }

    async fn remove_exactly(&self, kind: &str, name: &str, expected: Vec<u8>) -> Result<bool, StoreError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.run("remove a document", move |folder| {
            let _changing = folder.changes.lock();
            let is_expected = folder.read(&kind, &name, 0)? == Some(expected);
            if is_expected {
                folder.remove(&kind, &name)?;
            }
            Ok(is_expected)
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> (std::path::PathBuf, FolderDocuments) {
        let root =
            std::env::temp_dir().join(format!("documents-{:?}-{}", std::thread::current().id(), std::process::id()));
        let _ = fs::remove_dir_all(&root);
        (root.clone(), FolderDocuments::new(root))
    }

    #[tokio::test]
    async fn documents_are_replaced_only_as_expected() {
        let (root, documents) = documents();
        let (kind, name) = ("models/p:1", "../é");
        assert!(!documents.replace(kind, name, Some(b"x".to_vec()), b"y".to_vec()).await.unwrap());
        assert!(documents.replace(kind, name, None, b"1".to_vec()).await.unwrap());
        assert!(!documents.replace(kind, name, None, b"2".to_vec()).await.unwrap());
        assert!(documents.replace(kind, name, Some(b"1".to_vec()), b"2".to_vec()).await.unwrap());
        assert_eq!(documents.get_or_put(kind, name, b"3".to_vec()).await.unwrap(), b"2");
        let reopened = FolderDocuments::new(root.clone());
        let listed: Vec<_> =
            reopened.list(kind).await.unwrap().into_iter().map(|(name, body, _)| (name, body)).collect();
        assert_eq!(listed, [(name.to_owned(), b"2".to_vec())]);
        documents.put(kind, name, 1, b"part".to_vec()).await.unwrap();
        assert_eq!(documents.part(kind, name, 1).await.unwrap(), Some(b"part".to_vec()));
        assert!(documents.touch(kind, name).await.unwrap());
        assert_eq!(documents.remove_unused(kind, Duration::from_secs(600)).await.unwrap(), Vec::<String>::new());
        assert_eq!(documents.remove_unused(kind, Duration::ZERO).await.unwrap(), [name]);
        assert_eq!(documents.part(kind, name, 1).await.unwrap(), None);
        assert!(!documents.touch(kind, name).await.unwrap());
        documents.put(kind, name, 0, b"1".to_vec()).await.unwrap();
        assert!(!documents.remove_exactly(kind, name, b"2".to_vec()).await.unwrap());
        assert!(documents.remove_exactly(kind, name, b"1".to_vec()).await.unwrap());
        assert_eq!(documents.part(kind, name, 0).await.unwrap(), None);
        documents.remove(kind, name).await.unwrap();
        fs::remove_dir_all(root).unwrap();
    }
}
