//! Folders and buckets listed by the operator.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::data_folder::{DataFolder, identity};
use super::is_plain;
use tunesmith_domain::JobId;
use tunesmith_objects::{ObjectAddress, ObjectError, ObjectFolder};

/// System folders that are never allowed, since they expose other processes and devices.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Exception to [`SYSTEM`], used for files.
const SHARED_MEMORY: &str = "/dev/shm";

/// A folder or bucket open to jobs, parsed from `[PROJECT=]LOCATION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFolder {
    /// Restricts it to one project; `None` for all.
    pub project: Option<String>,
    pub location: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine, or on the machines of the programs.
    Folder {
        /// Absolute path, as written in jobs.
        path: PathBuf,
        /// Resolved path, without links.
        resolved: PathBuf,
    },
    /// A bucket, or a folder in one.
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

impl fmt::Display for AllowedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(project) = &self.project {
            write!(f, "{project}=")?;
        }
        self.location.fmt(f)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AllowedFolderError {
    #[error(
        "{0:?} is not an allowed folder: expected [PROJECT=]/FOLDER, without `..`, [PROJECT=]gs://BUCKET[/FOLDER] or [PROJECT=]s3://BUCKET[/FOLDER]"
    )]
    Form(String),
    #[error(transparent)]
    Address(#[from] ObjectError),
    /// The folder overlaps the data folder.
    #[error(
        "{path} cannot be allowed: jobs could read and change the store, the tokens and the audit log in the data folder {data_dir}; \
         allow a folder beside it"
    )]
    DataFolderInside { path: PathBuf, data_dir: PathBuf },
    #[error("{0} cannot be allowed: it shows processes and devices of this machine")]
    System(PathBuf),
    /// The folder of one project contains another project's.
    #[error("{inner} cannot be allowed for another scope than {outer}, which contains it: name separate folders")]
    Nested { inner: String, outer: String },
    #[error("{path} cannot be allowed")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the data folder {path} cannot be found")]
    DataFolder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl FromStr for AllowedFolder {
    type Err = AllowedFolderError;

    /// # Errors
    /// [`AllowedFolderError::Form`], [`AllowedFolderError::Address`], [`AllowedFolderError::Unreadable`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || AllowedFolderError::Form(text.to_owned());
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
    /// Resolves `path` (absolute, without `..`) to a path without links, if it lies in this folder.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let Location::Folder { path: named, resolved } = &self.location else { return None };
        let below = path.strip_prefix(named).or_else(|_| path.strip_prefix(resolved)).ok()?;
        // Joining an empty path would add a trailing slash.
        Some(resolved.join(below).components().collect())
    }

    /// Whether `other` is this location or inside it.
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

/// Resolves the links in `path`, which may exist only in part.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(resolved(parent)?.join(name)),
            _ => Err(error),
        },
        resolved => resolved,
    }
}

/// Checks the whole list against `data_folder` and for overlaps between projects.
pub(super) fn check(listed: &[AllowedFolder], data_folder: &DataFolder) -> Result<(), AllowedFolderError> {
    let data_dir = data_folder.path.as_path();
    for (index, folder) in listed.iter().enumerate() {
        if let Location::Folder { path, resolved } = &folder.location {
            let path = path.clone();
            if data_folder.has(resolved) || contains(resolved, data_dir)? {
                return Err(AllowedFolderError::DataFolderInside { path, data_dir: data_dir.to_owned() });
            }
            if SYSTEM.iter().any(|system| resolved.starts_with(system)) && !resolved.starts_with(SHARED_MEMORY) {
                return Err(AllowedFolderError::System(path));
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

/// Whether `folder` is `data_dir` or a parent of it, also through a bind mount.
fn contains(folder: &Path, data_dir: &Path) -> Result<bool, AllowedFolderError> {
    let wanted = match identity(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        wanted => wanted.map_err(|source| AllowedFolderError::Unreadable { path: folder.to_owned(), source })?,
    };
    Ok(data_dir.ancestors().any(|above| identity(above).is_ok_and(|found| found == wanted)))
}
