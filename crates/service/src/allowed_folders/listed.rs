//! The folders and buckets that an operator lists.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::is_plain;
use tunesmith_domain::JobId;
use tunesmith_objects::{ObjectAddress, ObjectError, ObjectFolder};

/// Folders of the system that are never allowed: they show other processes and devices.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A folder of the system with files of users.
const SHARED_MEMORY: &str = "/dev/shm";

/// A folder or bucket that jobs may name, parsed from `[PROJECT=]LOCATION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFolder {
    /// The only project whose jobs may name it; `None` for all projects.
    pub project: Option<String>,
    /// The folder or bucket.
    pub location: Location,
}

/// Location of an allowed folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine, or of the machines where programs run.
    Folder {
        /// The absolute path, as jobs name it.
        path: PathBuf,
        /// The path without links.
        resolved: PathBuf,
    },
    /// A bucket, or a folder in it.
    Objects(ObjectAddress),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { path, .. } => write!(f, "{}", path.display()),
            Self::Objects(address) => f.write_str(address.url()),
        }
    }
}

/// As it is parsed.
impl fmt::Display for AllowedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(project) = &self.project {
            write!(f, "{project}=")?;
        }
        self.location.fmt(f)
    }
}

/// Why a folder or bucket cannot be allowed.
#[derive(Debug, thiserror::Error)]
pub enum AllowedFolderError {
    /// The text does not name a folder or bucket.
    #[error(
        "{text:?} is not an allowed folder: expected [PROJECT=]/FOLDER, without `..`, [PROJECT=]gs://BUCKET[/FOLDER] or [PROJECT=]s3://BUCKET[/FOLDER]"
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] ObjectError),
    /// The folder contains the data folder, or is in it.
    #[error(
        "{path} cannot be allowed: jobs could read and change the store, the tokens and the audit log in the data folder {data_dir}; \
         allow a folder beside it"
    )]
    DataFolderInside {
        /// The folder.
        path: PathBuf,
        /// The data folder.
        data_dir: PathBuf,
    },
    /// The folder belongs to the system.
    #[error("{path} cannot be allowed: it shows processes and devices of this machine")]
    System {
        /// The folder.
        path: PathBuf,
    },
    /// The folder of one project contains that of another one.
    #[error("{inner} cannot be allowed for another scope than {outer}, which contains it: name separate folders")]
    Nested {
        /// The inner folder.
        inner: String,
        /// The outer folder.
        outer: String,
    },
    /// The folder cannot be read.
    #[error("{path} cannot be allowed")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The data folder cannot be found.
    #[error("the data folder {path} cannot be found")]
    DataFolder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl FromStr for AllowedFolder {
    type Err = AllowedFolderError;

    /// # Errors
    /// [`AllowedFolderError::Form`], [`AllowedFolderError::Address`], [`AllowedFolderError::Unreadable`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || AllowedFolderError::Form { text: text.to_owned() };
        let (project, location) = match text.split_once('=') {
            Some((project, rest)) if !project.contains('/') => {
                JobId::new(project, "job").map_err(|_| form())?;
                (Some(project.to_owned()), rest)
            }
            _ => (None, text),
        };
        let location = if ObjectFolder::is_address(location) {
            Location::Objects(ObjectAddress::parse(location)?)
        } else {
            let path: PathBuf = Path::new(location).components().collect();
            if !is_plain(&path) {
                return Err(form());
            }
            let resolved =
                resolved(&path).map_err(|source| AllowedFolderError::Unreadable { path: path.clone(), source })?;
            Location::Folder { path, resolved }
        };
        Ok(Self { project, location })
    }
}

impl AllowedFolder {
    /// The path without links of `path`, which is absolute and without `..`, if it is in this folder.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let Location::Folder { path: named, resolved } = &self.location else { return None };
        let below = path.strip_prefix(named).or_else(|_| path.strip_prefix(resolved)).ok()?;
        // Joining an empty path would add a slash.
        Some(resolved.join(below).components().collect())
    }

    /// Whether `other` is this location or in it.
    fn contains(&self, other: &Self) -> bool {
        match (&self.location, &other.location) {
            (Location::Folder { resolved, .. }, Location::Folder { resolved: other, .. }) => {
                other.starts_with(resolved)
            }
            (Location::Objects(folder), Location::Objects(other)) => folder.contains(other),
            _ => false,
        }
    }
}

/// The path without links of `path`, of which only the beginning may exist.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(resolved(parent)?.join(name)),
            _ => Err(error),
        },
        resolved => resolved,
    }
}

/// Checks `listed` for a server with `data_dir`, whose path has no links.
pub(super) fn check(listed: &[AllowedFolder], data_dir: &Path) -> Result<(), AllowedFolderError> {
    for (index, folder) in listed.iter().enumerate() {
        if let Location::Folder { path, resolved } = &folder.location {
            let path = path.clone();
            if resolved.starts_with(data_dir) || contains(resolved, data_dir)? {
                return Err(AllowedFolderError::DataFolderInside { path, data_dir: data_dir.to_owned() });
            }
            if SYSTEM.iter().any(|system| resolved.starts_with(system)) && !resolved.starts_with(SHARED_MEMORY) {
                return Err(AllowedFolderError::System { path });
            }
        }
        let others = listed.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
        if let Some(outer) = others.into_iter().find(|other| other.project != folder.project && other.contains(folder))
        {
            let (inner, outer) = (folder.location.to_string(), outer.location.to_string());
            return Err(AllowedFolderError::Nested { inner, outer });
        }
    }
    Ok(())
}

/// Whether `folder` is `data_dir` or a folder above it, also under another path, such as that of a bind mount.
fn contains(folder: &Path, data_dir: &Path) -> Result<bool, AllowedFolderError> {
    let identity = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    let wanted = match identity(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        wanted => wanted.map_err(|source| AllowedFolderError::Unreadable { path: folder.to_owned(), source })?,
    };
    Ok(data_dir.ancestors().any(|above| identity(above).is_ok_and(|found| found == wanted)))
}
