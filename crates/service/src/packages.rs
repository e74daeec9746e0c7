//! The packages that clients upload for their jobs, stored by content.
//!
//! ```text
//! <root>/<project>/<sha256>/<file name>     one package, complete and checked
//! <root>/<project>/.uploading-<random>      an unfinished upload; removed when it ends, or at the next start
//! ```

mod shared;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use tunesmith_domain::JobId;
use tunesmith_files::Place;
use tunesmith_packages::{PackageError, SIGNATURE_BYTES, check_archive};
use tunesmith_store::{Documents, StoreError};

/// Prefix of the names of unfinished files.
const UNFINISHED: &str = ".uploading-";

/// Maximum length of the name of a package file.
const MAX_NAME_LENGTH: usize = 128;

/// The packages of all projects.
#[derive(Clone)]
pub struct Packages {
    root: PathBuf,
    max_bytes: u64,
    /// The packages of all servers; `None` if there is one server.
    documents: Option<Arc<dyn Documents>>,
}

impl fmt::Debug for Packages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packages({})", self.root.display())
    }
}

/// The name of a package of a project. Its URI `tunesmith://projects/{project}/packages/{sha256}/{file name}` is used
/// in
/// `packageUris`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    project: String,
    sha256: String,
    file_name: String,
}

/// Why a package was refused or not found. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// A part of the name is invalid.
    #[error("invalid {part} {value:?}: {rule}")]
    Name {
        /// The part.
        part: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        rule: &'static str,
    },
    /// There is no package of this name.
    #[error("package {name} was not uploaded to this service")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The package belongs to another project than the job.
    #[error("package {name} belongs to another project than the job; upload it to the project of the job")]
    OtherProject {
        /// The name.
        name: String,
    },
    /// The package is too large.
    #[error("the package has more than {max_bytes} bytes")]
    TooLarge {
        /// The maximum size.
        max_bytes: u64,
    },
    /// The content does not have the digest in the name.
    #[error("the content has the SHA-256 {found}, not {expected}")]
    OtherContent {
        /// The digest of the content.
        found: String,
        /// The digest in the name.
        expected: String,
    },
    /// The content is not a package.
    #[error(transparent)]
    NotAPackage(#[from] PackageError),
    /// The packages of other servers cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system failed.
    #[error("cannot {action} {path}")]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// An unfinished upload. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Upload {
    name: PackageName,
    project: PathBuf,
    file: NamedTempFile,
    digest: Sha256,
    start: Vec<u8>,
    bytes: u64,
    max_bytes: u64,
}

impl Packages {
    /// Maximum size of a package.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Creates the service for the packages in `root`, which is created on demand. Each has at most `max_bytes`.
    pub fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes, documents: None }
    }

    /// Shares the packages with other servers through `documents`.
    #[must_use]
    pub fn shared(self, documents: Option<Arc<dyn Documents>>) -> Self {
        Self { documents, ..self }
    }

    /// Returns the maximum size of a package.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Removes the unfinished uploads of earlier processes. No other process may be receiving uploads.
    ///
    /// # Errors
    /// [`PackagesError::Io`].
    pub fn remove_unfinished(&self) -> Result<(), PackagesError> {
        for project in entries(&self.root)? {
            for path in entries(&project)? {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with(UNFINISHED) {
                    fs::remove_file(&path).map_err(failed("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the file of the package `name`, absolute if the root is.
    ///
    /// # Errors
    /// [`PackagesError::NotFound`].
    pub fn find(&self, name: &PackageName) -> Result<PathBuf, PackagesError> {
        let path = self.path(name);
        if path.is_file() { Ok(path) } else { Err(PackagesError::NotFound { name: name.uri() }) }
    }

    /// Removes the packages that were last used before `unused_since`: uploaded, or named by a new job. Returns their
    /// files.
    ///
    /// # Errors
    /// [`PackagesError::Io`]; other packages may have been removed.
    pub fn prune(&self, unused_since: SystemTime) -> Result<Vec<PathBuf>, PackagesError> {
        let mut removed = Vec::new();
        for project in entries(&self.root)? {
            for content in entries(&project)? {
                for path in entries(&content)? {
                    let last_use = path.metadata().and_then(|file| file.modified()).map_err(failed("read", &path))?;
                    if last_use < unused_since {
                        fs::remove_file(&path).map_err(failed("remove", &path))?;
                        removed.push(path);
                    }
                }
                match fs::remove_dir(&content) {
                    Err(error)
                        if !matches!(
                            error.kind(),
                            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory | io::ErrorKind::NotFound
                        ) =>
                    {
                        return Err(failed("remove", &content)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(removed)
    }

    /// Resolves `uri`, an entry of `packageUris` of a job of `project`: returns the file of an uploaded package, or
    /// another
    /// `uri` unchanged.
    ///
    /// # Errors
    /// [`PackagesError::Name`], [`PackagesError::NotFound`], [`PackagesError::OtherProject`].
    pub fn resolve(&self, project: &str, uri: &str) -> Result<String, PackagesError> {
        let Some(name) = PackageName::parse(uri)? else { return Ok(uri.to_owned()) };
        if name.project != project {
            return Err(PackagesError::OtherProject { name: uri.to_owned() });
        }
        let path = self.find(&name)?;
        // The last use, for `Self::prune`.
        let touched = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        touched.map_err(failed("write", &path))?;
        Ok(path.display().to_string())
    }

    /// Starts the upload of the package `name`. Writing to it blocks.
    ///
    /// # Errors
    /// [`PackagesError::Io`].
    pub fn begin(&self, name: PackageName) -> Result<Upload, PackagesError> {
        let project = self.root.join(&name.project);
        fs::create_dir_all(&project).map_err(failed("create", &project))?;
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&project);
        let file = file.map_err(failed("create a file in", &project))?;
        let digest = Sha256::new();
        Ok(Upload { name, project, file, digest, start: Vec::new(), bytes: 0, max_bytes: self.max_bytes })
    }

    /// The place of the uploaded package of `project` whose file is `path`; `None` if `path` is none.
    pub(crate) fn place_of(&self, project: &str, path: &Path) -> Option<Place> {
        let below = path.strip_prefix(&self.root).ok()?.to_str()?;
        let [of, sha256, file_name] = below.split('/').collect::<Vec<_>>()[..] else { return None };
        let is_name = of == project && PackageName::new(project, sha256, file_name).is_ok();
        is_name.then(|| Place::new(&self.root, below))
    }

    fn path(&self, name: &PackageName) -> PathBuf {
        self.root.join(&name.project).join(&name.sha256).join(&name.file_name)
    }
}

impl Upload {
    /// Adds the next bytes.
    ///
    /// # Errors
    /// [`PackagesError::TooLarge`], [`PackagesError::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackagesError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.max_bytes {
            return Err(PackagesError::TooLarge { max_bytes: self.max_bytes });
        }
        let missing = SIGNATURE_BYTES.saturating_sub(self.start.len()).min(bytes.len());
        self.start.extend_from_slice(&bytes[..missing]);
        self.digest.update(bytes);
        self.file.write_all(bytes).map_err(failed("write", self.file.path()))
    }

    /// Checks the content, and stores it durably under its name. Returns its size in bytes.
    ///
    /// # Errors
    /// [`PackagesError::OtherContent`], [`PackagesError::NotAPackage`], [`PackagesError::Io`].
    pub fn finish(self) -> Result<u64, PackagesError> {
        let found = hex::encode(self.digest.finalize());
        if found != self.name.sha256 {
            return Err(PackagesError::OtherContent { found, expected: self.name.sha256 });
        }
        check_archive(&self.name.uri(), &self.name.file_name, &self.start)?;
        self.file.as_file().sync_all().map_err(failed("sync", self.file.path()))?;
        let folder = self.project.join(&self.name.sha256);
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        let path = folder.join(&self.name.file_name);
        // A concurrent upload of the same content is replaced by the same bytes.
        self.file.persist(&path).map_err(|error| failed("write", &path)(error.error))?;
        for synced in [&folder, &self.project] {
            File::open(synced).and_then(|folder| folder.sync_all()).map_err(failed("sync", synced))?;
        }
        Ok(self.bytes)
    }
}

impl PackageName {
    /// Prefix of the URIs of uploaded packages.
    pub const SCHEME: &str = "tunesmith://";

    /// Creates the name of the package of `project` with this SHA-256 and file name.
    ///
    /// # Errors
    /// [`PackagesError::Name`] if a part is invalid. No valid name refers to another folder.
    pub fn new(project: &str, sha256: &str, file_name: &str) -> Result<Self, PackagesError> {
        let wrong = |part, value: &str, rule| Err(PackagesError::Name { part, value: value.to_owned(), rule });
        // The rules of job IDs apply.
        if JobId::new(project, "job").is_err() {
            return wrong("project", project, "letters, digits, '_', '-', '.' and ':' are allowed, at most 128");
        }
        if sha256.len() != 64 || !sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return wrong("SHA-256", sha256, "64 lower-case hexadecimal digits are required");
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-+!".contains(letter);
        let is_name = !file_name.is_empty() && file_name.len() <= MAX_NAME_LENGTH && !file_name.starts_with('.');
        if !is_name || !file_name.chars().all(is_plain) {
            let rule = "letters, digits, '.', '_', '-', '+' and '!' are allowed, at most 128, not beginning with '.'";
            return wrong("name of a package's file", file_name, rule);
        }
        Ok(Self { project: project.to_owned(), sha256: sha256.to_owned(), file_name: file_name.to_owned() })
    }

    /// Parses the URI of a package; `None` if it has another scheme.
    ///
    /// # Errors
    /// [`PackagesError::Name`].
    pub fn parse(uri: &str) -> Result<Option<Self>, PackagesError> {
        let Some(path) = uri.strip_prefix(Self::SCHEME) else { return Ok(None) };
        match path.split('/').collect::<Vec<_>>()[..] {
            ["projects", project, "packages", sha256, file_name] => Self::new(project, sha256, file_name).map(Some),
            _ => Err(PackagesError::Name {
                part: "package of this service",
                value: uri.to_owned(),
                rule: "tunesmith://projects/{project}/packages/{sha256}/{file name}",
            }),
        }
    }

    /// Returns the URI for `packageUris`.
    pub fn uri(&self) -> String {
        format!("{}{}", Self::SCHEME, self.resource_name())
    }

    /// Returns `projects/{project}/packages/{sha256}/{file name}`.
    pub fn resource_name(&self) -> String {
        format!("projects/{}/packages/{}/{}", self.project, self.sha256, self.file_name)
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackagesError + use<> {
    let path = path.to_owned();
    move |source| PackagesError::Io { action, path, source }
}

/// Returns the paths in `folder`; none if it does not exist or is a file.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, PackagesError> {
    let listed = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    listed.map_err(failed("list", folder))
}

#[cfg(test)]
mod tests;
