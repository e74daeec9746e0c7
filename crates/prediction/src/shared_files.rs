//! Files of versions for other servers: parts of a document.
//!
//! Part 0 lists the files, the others hold their content, one after the other. Part 0 is stored last.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tunesmith_store::{Documents, StoreError};

pub(crate) const KIND: &str = "model-files";

/// Folders of a version that are stored.
const FOLDERS: [&str; 4] = ["model", "packages", "bin", "archives"];

/// Size of a content part.
const PART_BYTES: usize = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    /// Path below the folder of the version.
    path: PathBuf,
    size: u64,
}

/// Stores the files of the version `uid`, whose folder is `folder`.
pub(crate) async fn publish(documents: &dyn Documents, uid: &str, folder: &Path) -> Result<(), StoreError> {
    let mut paths = Vec::new();
    for name in FOLDERS {
        find(folder, &folder.join(name), &mut paths).map_err(failed)?;
    }
    let mut listed = Vec::with_capacity(paths.len());
    let (mut part, mut number) = (Vec::with_capacity(PART_BYTES), 0);
    for path in paths {
        let mut file = File::open(folder.join(&path)).map_err(failed)?;
        let mut size = 0;
        loop {
            let free = (PART_BYTES - part.len()) as u64;
            // Reading a megabyte is faster than a thread switch would be worth, next to the round trip below.
            let read = Read::take(&mut file, free).read_to_end(&mut part).map_err(failed)?;
            size += read as u64;
            if part.len() == PART_BYTES {
                number += 1;
                documents.put(KIND, uid, number, std::mem::take(&mut part)).await?;
            } else if read == 0 {
                break;
            }
        }
        listed.push(Listed { path, size });
    }
    documents.put(KIND, uid, number + 1, part).await?;
    let head = serde_json::to_vec(&listed).map_err(|error| failed(error.into()))?;
    documents.put(KIND, uid, 0, head).await
}

/// Writes the files stored under `uid` into the empty `folder`.
pub(crate) async fn fetch(documents: &dyn Documents, uid: &str, folder: &Path) -> Result<(), StoreError> {
    let missing = || StoreError::NotFound { resource: format!("the files of version {uid}") };
    let head = documents.part(KIND, uid, 0).await?.ok_or_else(missing)?;
    let listed: Vec<Listed> = serde_json::from_slice(&head).map_err(|error| failed(error.into()))?;
    let (mut part, mut start, mut number) = (Vec::new(), 0, 0);
    for Listed { path, size } in listed {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        let mut file = File::create_new(&path).map_err(failed)?;
        let mut left = usize::try_from(size).map_err(|error| failed(io::Error::other(error)))?;
        while left > 0 {
            if start == part.len() {
                number += 1;
                part = documents.part(KIND, uid, number).await?.filter(|part| !part.is_empty()).ok_or_else(missing)?;
                start = 0;
            }
            let length = left.min(part.len() - start);
            file.write_all(&part[start..start + length]).map_err(failed)?;
            start += length;
            left -= length;
        }
    }
    Ok(())
}

pub(crate) async fn remove(documents: &dyn Documents, uid: &str) -> Result<(), StoreError> {
    documents.remove(KIND, uid).await
}

fn find(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(root, &entry.path(), paths)?;
        } else if let Ok(path) = entry.path().strip_prefix(root) {
            paths.push(path.to_owned());
        }
    }
    Ok(())
}

fn failed(source: io::Error) -> StoreError {
    StoreError::NotApplied { operation: "copy the files of a version", source: source.into() }
}

#[cfg(test)]
mod tests {
    use tunesmith_store::FolderDocuments;

    use super::*;

    #[tokio::test]
    async fn files_arrive_as_they_were() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let documents = FolderDocuments::new(root.path().join("documents"));
        fs::create_dir_all(from.join("model/a")).unwrap();
        fs::create_dir_all(&to).unwrap();
        let large: Vec<u8> = (0..3 * PART_BYTES + 7).map(|number| number as u8).collect();
        fs::write(from.join("model/large"), &large).unwrap();
        fs::write(from.join("model/a/empty"), "").unwrap();
        fs::write(from.join("model/small"), "12").unwrap();
        publish(&documents, "u", &from).await.unwrap();
        fetch(&documents, "u", &to).await.unwrap();
        assert_eq!(fs::read(to.join("model/large")).unwrap(), large);
        assert_eq!(fs::read(to.join("model/a/empty")).unwrap(), b"");
        assert_eq!(fs::read(to.join("model/small")).unwrap(), b"12");
        remove(&documents, "u").await.unwrap();
        assert!(matches!(fetch(&documents, "u", &to).await, Err(StoreError::NotFound { .. })));
    }
}
