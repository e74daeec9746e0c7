//! Turns Python packages into an interpreter that can run them.
//!
//! A package is fetched, checked, and installed together with its dependencies into a virtual environment of its own,
//! once for each content. Not in here: which module the trials run, and with which arguments.
//!
//! # Layout of the folder
//! ```text
//! <root>/<hash>.lock           held by whoever builds the environment, and by the installer that it started
//! <root>/<hash>/install.log    what the installer said
//! <root>/<hash>/python/        the virtual environment
//! <root>/<hash>/ready          written last: without it the folder is unfinished, and the next caller starts over
//! ```
//! The hash covers the bytes of the packages, the requirements, the interpreter, and which installer is used. It does
//! not cover what an index answers: requirements without a version stay at what the first installation got. To renew
//! an environment remove its folder.

mod archive;
mod error;
mod fetch;
mod installer;
mod lock;
mod packed_folder;
mod process;
mod source;
mod source_folder;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use self::archive::{SIGNATURE_BYTES, check as check_archive};
pub use self::error::PackageError;
use self::fetch::Fetched;
use self::installer::Installer;
pub use self::packed_folder::PackedFolder;
use self::process::InstallerProcess;
pub use self::source::PackageSource;
pub use self::source_folder::SourceFolder;

/// Part of every hash: raise it when environments are laid out or installed in another way.
const LAYOUT_VERSION: &str = "tunesmith python environment 1";

/// What an interpreter must be able to import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRequest {
    /// The packages, installed together, so that one may depend on another.
    pub packages: Vec<Package>,
    /// Further requirements as pip takes them on its command line, such as `scikit-learn>=1.5`.
    pub requirements: Vec<String>,
}

/// One package to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Package {
    /// A wheel or source archive, as in `packageUris`.
    Archive(PackageSource),
    /// A package's source folder, as in `--package-path`.
    Folder(SourceFolder),
}

/// An interpreter with everything installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedEnvironment {
    /// Absolute path of the interpreter.
    pub python: PathBuf,
    /// What the installer said.
    pub log: PathBuf,
}

/// Builds environments and keeps them in a folder, which any number of processes may share.
#[derive(Debug, Clone)]
pub struct Environments {
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
}

impl Environments {
    /// Environments below `root`, which is made when it is needed, with the environment variables of this process:
    /// `PATH` for `python3` and `uv`, their own settings such as `PIP_INDEX_URL`, and the credentials and endpoints of
    /// `gs://` (`GOOGLE_*`) and `s3://` (`AWS_*`).
    pub fn new(root: PathBuf) -> Self {
        Self::with_variables(root, std::env::vars_os().collect())
    }

    /// The same with `variables` in place of those of this process.
    pub fn with_variables(root: PathBuf, variables: BTreeMap<OsString, OsString>) -> Self {
        Self { root, variables }
    }

    /// Makes sure that the environment of `request` is there. If another process is building it, waits for that.
    ///
    /// Dropping the future ends the installer and everything it started; what is unfinished is removed by the next
    /// call.
    ///
    /// # Errors
    /// See [`PackageError`]. Nothing is remembered of a failure but the log: the next call tries again.
    pub async fn prepare(&self, request: &EnvironmentRequest) -> Result<PreparedEnvironment, PackageError> {
        let root = self.make_root()?;
        let installer = Installer::find(&self.variables).await?;
        let mut packages = Vec::with_capacity(request.packages.len());
        for package in &request.packages {
            packages.push(match package {
                Package::Archive(source) => Content::Archive(fetch::fetch(source, &root, &self.variables).await?),
                Package::Folder(folder) => {
                    let folder = folder.clone();
                    Content::Folder(unblock(move || folder.read()).await?)
                }
            });
        }
        let hash = hash(&installer, &packages, &request.requirements);
        let directory = root.join(&hash);
        let environment =
            PreparedEnvironment { python: directory.join("python/bin/python"), log: directory.join("install.log") };

        let lock_path = root.join(format!("{hash}.lock"));
        let lock = lock::exclusive(&lock_path).await.map_err(PackageError::io("lock", &lock_path))?;
        let ready = directory.join("ready");
        // The interpreter itself is a link to one of the system, which may have been removed since.
        if ready.exists() && environment.python.exists() {
            tracing::debug!(environment.path = %directory.display(), "the Python environment is there already");
            return Ok(environment);
        }
        tracing::info!(environment.path = %directory.display(), installer = installer.name(), "installing packages");
        let targets = {
            let directory = directory.clone();
            unblock(move || start_over(&directory, packages)).await?
        };
        let log = File::create(&environment.log).map_err(PackageError::io("create", &environment.log))?;
        let process = InstallerProcess { lock, log, log_path: environment.log.clone(), directory: directory.clone() };
        installer.install(&process, &directory.join("python"), &targets, &request.requirements).await?;
        unblock(move || finish(&directory, &ready)).await?;
        Ok(environment)
    }

    fn make_root(&self) -> Result<PathBuf, PackageError> {
        fs::create_dir_all(&self.root).map_err(PackageError::io("create", &self.root))?;
        // Absolute, because installers run elsewhere.
        fs::canonicalize(&self.root).map_err(PackageError::io("find", &self.root))
    }
}

/// The bytes of a package.
enum Content {
    Archive(Fetched),
    Folder(source_folder::FolderContent),
}

fn hash(installer: &Installer, packages: &[Content], requirements: &[String]) -> String {
    let mut digest = Sha256::new();
    let mut add = |kind: &str, value: &[u8]| {
        for part in [kind.as_bytes(), value] {
            // With its length, so that no two lists of parts run together into the same bytes.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    };
    add("layout", LAYOUT_VERSION.as_bytes());
    add("installer", installer.name().as_bytes());
    add("python", installer.python_version().as_bytes());
    for package in packages {
        match package {
            Content::Archive(fetched) => {
                add("archive", fetched.file_name.as_bytes());
                add("content", &fetched.digest);
            }
            Content::Folder(folder) => add("folder", &folder.digest()),
        }
    }
    for requirement in requirements {
        add("requirement", requirement.as_bytes());
    }
    hex::encode(digest.finalize())
}

/// Empties `directory` and puts the packages there; returns what the installer is to install.
fn start_over(directory: &Path, packages: Vec<Content>) -> Result<Vec<PathBuf>, PackageError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(PackageError::io("remove", directory)(error));
        }
        _ => {}
    }
    let mut targets = Vec::with_capacity(packages.len());
    for (index, package) in packages.into_iter().enumerate() {
        // A folder for each, because two packages may have the same file name.
        let place = packages_folder(directory).join(index.to_string());
        fs::create_dir_all(&place).map_err(PackageError::io("create", &place))?;
        targets.push(match package {
            Content::Archive(fetched) => fetched.write_into(&place)?,
            Content::Folder(folder) => {
                folder.write_into(&place)?;
                place
            }
        });
    }
    fs::create_dir_all(directory).map_err(PackageError::io("create", directory))?;
    Ok(targets)
}

/// Marks the environment as usable, once every byte of it is on the disk.
fn finish(directory: &Path, ready: &Path) -> Result<(), PackageError> {
    match fs::remove_dir_all(packages_folder(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(PackageError::io("remove", directory)(error));
        }
        _ => {}
    }
    // Installers do not sync what they write: without this a power cut could leave the marker beside empty files.
    let folder = File::open(directory).map_err(PackageError::io("open", directory))?;
    rustix::fs::syncfs(&folder).map_err(|error| PackageError::io("sync", directory)(error.into()))?;
    let marker = File::create(ready).map_err(PackageError::io("create", ready))?;
    marker.sync_all().and_then(|()| folder.sync_all()).map_err(PackageError::io("sync", ready))
}

fn packages_folder(directory: &Path) -> PathBuf {
    directory.join("packages")
}

/// Runs file operations off the async threads.
async fn unblock<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PackageError> + Send + 'static,
) -> Result<T, PackageError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(PackageError::ShuttingDown),
        },
    }
}
