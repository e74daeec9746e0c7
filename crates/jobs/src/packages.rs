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
use tunesmith_files::RootedPath;
use tunesmith_packages::{PackageError, SIGNATURE_BYTES, check_archive};
use tunesmith_store::{Documents, StoreError};

/// Name prefix of unfinished files.
const UNFINISHED: &str = ".uploading-";

const MAX_NAME_LENGTH: usize = 128;

#[derive(Clone)]
pub struct Packages {
    root: PathBuf,
    max_bytes: u64,
    /// Document store shared by the servers; `None` in single-server mode.
    documents: Option<Arc<dyn Documents>>,
}

impl fmt::Debug for Packages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packages({})", self.root.display())
    }
}

/// Name of a package within a project. `packageUris` refers to it as
/// `tunesmith://projects/{project}/packages/{sha256}/{file name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    project: String,
    sha256: String,
    file_name: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    #[error("invalid {part} {value:?}: {rule}")]
    Name {
        part: &'static str,
        value: String,
        /// Description of the allowed values.
        rule: &'static str,
    },
    #[error("package {0} was not uploaded to this service")]
    NotFound(String),
    #[error("package {0} belongs to another project than the job; upload it to the project of the job")]
    OtherProject(String),
    /// Size limit in bytes, exceeded.
    #[error("the package has more than {0} bytes")]
    TooLarge(u64),
    /// The content does not match the digest in the name.
    #[error("the content has the SHA-256 {found}, not {expected}")]
    OtherContent { found: String, expected: String },
    #[error(transparent)]
    NotAPackage(#[from] PackageError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// An unfinished upload; dropping it removes its file.
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
    /// Default size limit of a package in bytes.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// `root` is created on demand; each package has at most `max_bytes`.
    pub fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes, documents: None }
    }

    /// Shares the packages with other servers through `documents`.
    #[must_use]
    pub fn shared(self, documents: Option<Arc<dyn Documents>>) -> Self {
        Self { documents, ..self }
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Removes unfinished uploads of earlier processes. Must not run while another process receives uploads.
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

    /// File of the package, absolute if the root is.
    pub fn find(&self, name: &PackageName) -> Result<PathBuf, PackagesError> {
        let path = self.path(name);
        if path.is_file() { Ok(path) } else { Err(PackagesError::NotFound(name.uri())) }
    }

    /// Removes and returns the packages last used (uploaded, or named by a new job) before `unused_since`.
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

    /// Resolves `uri`, an entry of `packageUris`: an uploaded package becomes its local file, fetched from the other
    /// servers if necessary; any other `uri` is returned unchanged.
    ///
    /// # Errors
    /// As [`Self::fetch`]; [`PackagesError::Name`], [`PackagesError::OtherProject`].
    pub async fn resolve(&self, project: &str, uri: &str) -> Result<String, PackagesError> {
        let Some(name) = PackageName::parse(uri)? else { return Ok(uri.to_owned()) };
        if name.project != project {
            return Err(PackagesError::OtherProject(uri.to_owned()));
        }
        let path = self.fetch(&name).await?;
        // The modification time records the last use, for `Self::prune`.
        let touched = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        touched.map_err(failed("write", &path))?;
        Ok(path.display().to_string())
    }

    /// Starts an upload, whose writes block.
    pub fn begin(&self, name: PackageName) -> Result<Upload, PackagesError> {
        let project = self.root.join(&name.project);
        fs::create_dir_all(&project).map_err(failed("create", &project))?;
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&project);
        let file = file.map_err(failed("create a file in", &project))?;
        let digest = Sha256::new();
        Ok(Upload { name, project, file, digest, start: Vec::new(), bytes: 0, max_bytes: self.max_bytes })
    }

    /// Rooted path of an uploaded package file; `None` if `path` is not one.
    pub(crate) fn uploaded_file(&self, project: &str, path: &Path) -> Option<RootedPath> {
        let below = path.strip_prefix(&self.root).ok()?.to_str()?;
        let [of, sha256, file_name] = below.split('/').collect::<Vec<_>>()[..] else { return None };
        let is_name = of == project && PackageName::new(project, sha256, file_name).is_ok();
        is_name.then(|| RootedPath::new(&self.root, below))
    }

    fn path(&self, name: &PackageName) -> PathBuf {
        self.root.join(&name.project).join(&name.sha256).join(&name.file_name)
    }
}

impl Upload {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackagesError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.max_bytes {
            return Err(PackagesError::TooLarge(self.max_bytes));
        }
        let missing = SIGNATURE_BYTES.saturating_sub(self.start.len()).min(bytes.len());
        self.start.extend_from_slice(&bytes[..missing]);
        self.digest.update(bytes);
        self.file.write_all(bytes).map_err(failed("write", self.file.path()))
    }

    /// Verifies the content and stores it durably under its name. Returns its size in bytes.
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
        // May replace a concurrent upload with identical bytes.
        self.file.persist(&path).map_err(|error| failed("write", &path)(error.error))?;
        for synced in [&folder, &self.project] {
            File::open(synced).and_then(|folder| folder.sync_all()).map_err(failed("sync", synced))?;
        }
        Ok(self.bytes)
    }
}

impl PackageName {
    pub const SCHEME: &str = "tunesmith://";

    /// Validates the parts.
    ///
    /// # Errors
    /// [`PackagesError::Name`]. No valid name escapes its folder.
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

    /// Parses a package URI; `None` for another scheme.
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

    /// URI for `packageUris`.
    pub fn uri(&self) -> String {
        format!("{}{}", Self::SCHEME, self.resource_name())
    }

    /// `projects/{project}/packages/{sha256}/{file name}`.
    pub fn resource_name(&self) -> String {
        format!("projects/{}/packages/{}/{}", self.project, self.sha256, self.file_name)
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackagesError + use<> {
    let path = path.to_owned();
    move |source| PackagesError::Io { action, path, source }
}

/// Paths in `folder`; none if it is missing or a file.
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
