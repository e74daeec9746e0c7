//! Packages that clients hand over, kept by content until a job names them.
//!
//! ```text
//! <root>/<project>/<sha256>/<file name>     one package, complete and checked
//! <root>/<project>/.uploading-<random>      what has come so far; removed when the upload ends, or at the next start
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use tunesmith_domain::JobId;
use tunesmith_packages::{PackageError, SIGNATURE_BYTES, check_archive};

/// How names of unfinished files begin.
const UNFINISHED: &str = ".uploading-";

/// Most characters in the name of a package's file.
const MAX_NAME_LENGTH: usize = 128;

/// The packages of all projects.
#[derive(Debug, Clone)]
pub struct Packages {
    root: PathBuf,
    max_bytes: u64,
}

/// Names one package of one project. As text `tunesmith://projects/{project}/packages/{sha256}/{file name}`, which is
/// what stands in `packageUris`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    project: String,
    sha256: String,
    file_name: String,
}

/// Why a package was not taken, or is not there. Nothing was kept.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// A part of the name breaks a rule.
    #[error("{value:?} is no {part}: {rule}")]
    Name {
        /// Which part.
        part: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Nothing was uploaded under this name.
    #[error("package {name} was not uploaded to this service")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The job would run a package of others.
    #[error("package {name} is of another project")]
    OtherProject {
        /// The name.
        name: String,
    },
    /// There is more than is allowed.
    #[error("the package has more than {max_bytes} bytes")]
    TooLarge {
        /// How many are allowed.
        max_bytes: u64,
    },
    /// What has come is not what was announced.
    #[error("the content has the SHA-256 {found}, not {expected}")]
    OtherContent {
        /// What has come.
        found: String,
        /// What was announced.
        expected: String,
    },
    /// It is no package.
    #[error(transparent)]
    NotAPackage(#[from] PackageError),
    /// The disk refuses.
    #[error("cannot {action} {path}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A package that is on its way. Dropped, it leaves nothing.
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
    /// Most bytes of one package.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// The packages below `root`, which is made when it is needed; each with at most `max_bytes`.
    pub fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes }
    }

    /// Most bytes of one package.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Removes what uploads have left that ended with their process. To be called while no other process takes any.
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

    /// The file of the package `name`, absolute if the root is.
    ///
    /// # Errors
    /// [`PackagesError::NotFound`].
    pub fn find(&self, name: &PackageName) -> Result<PathBuf, PackagesError> {
        let path = self.path(name);
        if path.is_file() { Ok(path) } else { Err(PackagesError::NotFound { name: name.uri() }) }
    }

    /// What `uri`, an entry of `packageUris` of a job of `project`, stands for on this machine: the file of a package
    /// that was uploaded, or `uri` itself.
    ///
    /// # Errors
    /// [`PackagesError::Name`], [`PackagesError::NotFound`], [`PackagesError::OtherProject`].
    pub fn resolve(&self, project: &str, uri: &str) -> Result<String, PackagesError> {
        let Some(name) = PackageName::parse(uri)? else { return Ok(uri.to_owned()) };
        if name.project != project {
            return Err(PackagesError::OtherProject { name: uri.to_owned() });
        }
        Ok(self.find(&name)?.display().to_string())
    }

    /// Begins to take the package `name`. What it writes blocks.
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

    /// Checks what has come, and keeps it durably under its name. Returns how many bytes it has.
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
        // If another upload of the same content was faster, its file is replaced by the same bytes.
        self.file.persist(&path).map_err(|error| failed("write", &path)(error.error))?;
        for synced in [&folder, &self.project] {
            File::open(synced).and_then(|folder| folder.sync_all()).map_err(failed("sync", synced))?;
        }
        Ok(self.bytes)
    }
}

impl PackageName {
    /// How the names of packages of this service begin.
    pub const SCHEME: &str = "tunesmith://";

    /// The package of `project` whose bytes have this SHA-256 and whose file is called `file_name`.
    ///
    /// # Errors
    /// [`PackagesError::Name`] if a part breaks a rule, so that none can lead to another folder.
    pub fn new(project: &str, sha256: &str, file_name: &str) -> Result<Self, PackagesError> {
        let wrong = |part, value: &str, rule| Err(PackagesError::Name { part, value: value.to_owned(), rule });
        // A job of the project must be possible.
        if JobId::new(project, "job").is_err() {
            return wrong("project", project, "letters, digits, '_', '-', '.' and ':' are allowed, at most 128");
        }
        if sha256.len() != 64 || !sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return wrong("SHA-256", sha256, "64 lower-case hexadecimal digits are needed");
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-+!".contains(letter);
        let is_name = !file_name.is_empty() && file_name.len() <= MAX_NAME_LENGTH && !file_name.starts_with('.');
        if !is_name || !file_name.chars().all(is_plain) {
            let rule = "letters, digits, '.', '_', '-', '+' and '!' are allowed, at most 128, not beginning with '.'";
            return wrong("name of a package's file", file_name, rule);
        }
        Ok(Self { project: project.to_owned(), sha256: sha256.to_owned(), file_name: file_name.to_owned() })
    }

    /// The name that `uri` is; `None` if it is of another scheme.
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

    /// What stands in `packageUris`.
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

/// What lies in `folder`; nothing if it does not exist or is a file.
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
