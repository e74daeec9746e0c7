//! List of the files of a backup with their digests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::DataDirError;

/// Manifest of a backup, at its top.
pub(super) const FILE: &str = "BACKUP";
const VERSION: u32 = 1;

/// Maximum size in bytes: some million files.
const MAX_BYTES: u64 = 1 << 30;

const BLOCK_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    version: u32,
    /// Data folder that was backed up.
    pub(super) folder: PathBuf,
    pub(super) created: jiff::Timestamp,
    /// SHA-256 of each file, or the target of a link, by the path in the backup. Bytes of a path other than printable ASCII
    /// are escaped.
    files: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Entry {
    Sha256(String),
    Link(String),
}

impl Manifest {
    /// Manifest of the files in `backup`, copied from `folder`.
    pub(super) fn of(backup: &Path, folder: &Path, created: jiff::Timestamp) -> Result<Self, DataDirError> {
        let mut files = BTreeMap::new();
        list(backup, backup, &mut files)?;
        Ok(Self { version: VERSION, folder: folder.to_owned(), created, files })
    }

    pub(super) fn write(&self, backup: &Path) -> Result<(), DataDirError> {
        let path = backup.join(FILE);
        let text = serde_json::to_vec_pretty(self).map_err(|error| DataDirError::io("write", &path)(error.into()))?;
        fs::write(&path, text).map_err(DataDirError::io("write", &path))
    }

    /// Reads the manifest of `backup`.
    ///
    /// # Errors
    /// [`DataDirError::NotABackup`].
    pub(super) fn read(backup: &Path) -> Result<Self, DataDirError> {
        let not_a_backup = |reason: String| DataDirError::NotABackup { path: backup.to_owned(), reason };
        let path = backup.join(FILE);
        let size = fs::metadata(&path).map_err(|error| not_a_backup(format!("{FILE}: {error}")))?.len();
        if size > MAX_BYTES {
            return Err(not_a_backup(format!("{FILE} has {size} bytes, at most {MAX_BYTES} are read")));
        }
        let text = fs::read(&path).map_err(|error| not_a_backup(format!("{FILE}: {error}")))?;
        let read: Self = serde_json::from_slice(&text).map_err(|error| not_a_backup(format!("{FILE}: {error}")))?;
        if read.version != VERSION {
            return Err(not_a_backup(format!("{FILE} has version {}, this program reads {VERSION}", read.version)));
        }
        Ok(read)
    }

    /// Checks that `folder`, a copy of the backup, contains these files and no others.
    ///
    /// # Errors
    /// [`DataDirError::DamagedBackup`] for the first difference.
    pub(super) fn check(&self, backup: &Path, folder: &Path) -> Result<(), DataDirError> {
        let mut found = BTreeMap::new();
        list(folder, folder, &mut found)?;
        let difference = |path: &String, reason| DataDirError::DamagedBackup {
            backup: backup.to_owned(),
            path: path.into(),
            reason,
        };
        for (path, entry) in &self.files {
            match found.remove(path) {
                None => return Err(difference(path, "is missing")),
                Some(now) if now != *entry => {
                    return Err(difference(path, "has another content than when it was written"));
                }
                Some(_) => {}
            }
        }
        found.keys().next().map_or(Ok(()), |path| Err(difference(path, "is not in its list of files")))
    }
}

/// Adds the files below `folder` of `backup`.
fn list(backup: &Path, folder: &Path, files: &mut BTreeMap<String, Entry>) -> Result<(), DataDirError> {
    for entry in fs::read_dir(folder).map_err(DataDirError::io("read", folder))? {
        let path = entry.map_err(DataDirError::io("read", folder))?.path();
        let name = path.strip_prefix(backup).unwrap_or(&path).as_os_str().as_bytes().escape_ascii().to_string();
        let kind = path.symlink_metadata().map_err(DataDirError::io("read", &path))?.file_type();
        if kind.is_dir() {
            list(backup, &path, files)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(DataDirError::io("read", &path))?;
            files.insert(name, Entry::Link(target.as_os_str().as_bytes().escape_ascii().to_string()));
        } else if name != FILE {
            let digest = digest_of(&path).map_err(DataDirError::io("read", &path))?;
            files.insert(name, Entry::Sha256(digest));
        }
    }
    Ok(())
}

fn digest_of(path: &Path) -> io::Result<String> {
    let (mut file, mut digest, mut block) = (File::open(path)?, Sha256::new(), vec![0; BLOCK_BYTES]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex::encode(digest.finalize())),
            count => digest.update(&block[..count]),
        }
    }
}
