#![doc = include_str!("../README.md")]

mod archive;
mod built_in;
mod entries;
mod error;
mod fetch;
mod installer;
mod lock;
mod packed_folder;
mod process;
mod retention;
mod rules;
mod source;
mod source_folder;
mod staged;
mod user_folder;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tunesmith_files::{FileUser, RootedPath};

pub use self::archive::{SIGNATURE_BYTES, check as check_archive};
pub use self::built_in::built_in_trainers;
pub use self::error::PackageError;
use self::fetch::Fetched;
use self::installer::Installer;
pub use self::packed_folder::PackedFolder;
use self::process::InstallerProcess;
pub use self::rules::PackageRules;
pub use self::source::PackageSource;
pub use self::source_folder::SourceFolder;
pub use self::staged::StagedPackage;
pub use self::user_folder::let_pass;

/// Part of every hash. Must change when the layout or installation of environments changes.
const LAYOUT_VERSION: &str = "tunesmith python environment 1";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRequest {
    /// Installed together, so that one may depend on another.
    pub packages: Vec<Package>,
    /// Further requirements in pip's command-line syntax, such as `scikit-learn>=1.5`.
    pub requirements: Vec<String>,
    /// User that runs the installers; `None` for that of this process. Each user has separate environments.
    pub user: Option<ProgramUser>,
    /// Interpreter of the environment; `None` for `python3` on the `PATH`.
    pub python: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramUser {
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
    pub groups: Vec<u32>,
    pub home: OsString,
}

impl ProgramUser {
    pub fn files(&self) -> FileUser {
        FileUser { uid: self.uid, gid: self.gid, groups: self.groups.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Package {
    /// Wheel or source archive, as in `packageUris`. If local, it is opened as the user of the request.
    Archive(PackageSource),
    Local(LocalArchive),
    /// Source folder of a package, as in `--package-path`.
    Folder(SourceFolder),
    /// Package of this program.
    Packed(PackedFolder),
}

/// Local archive, opened without following links and with the permissions of `place`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalArchive {
    /// Archive as named by the user.
    pub source: PackageSource,
    pub place: RootedPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedEnvironment {
    /// Absolute path of the interpreter.
    pub python: PathBuf,
    /// Major and minor version of Python, such as `3.12`.
    pub python_version: String,
    pub log: PathBuf,
}

/// Potentially slow step of building an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Reading a package archive, locally or from a server.
    Fetching {
        /// URI as written by the user, without credentials.
        uri: String,
    },
    /// Waiting for another process to install the same packages.
    Waiting {
        /// Output of the other installer.
        log: PathBuf,
    },
    Installing {
        /// `uv` or `pip`.
        installer: &'static str,
        /// Growing output of the installer.
        log: PathBuf,
    },
}

/// Builds environments and caches them in a folder that several processes may share.
#[derive(Debug, Clone)]
pub struct Environments {
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    /// Environment variables of installers; `None` for `variables`.
    installer_variables: Option<BTreeMap<OsString, OsString>>,
    rules: PackageRules,
}

impl Environments {
    /// Environments below `root`, created on demand. Uses this process's environment variables: `PATH` for `python3`
    /// and `uv`, their settings such as `PIP_INDEX_URL`, and the credentials and endpoints of `gs://` (`GOOGLE_*`) and
    /// `s3://` (`AWS_*`).
    pub fn new(root: PathBuf) -> Self {
        Self::with_variables(root, std::env::vars_os().collect())
    }

    /// Like [`Self::new`], with `variables` instead of those of this process.
    pub fn with_variables(root: PathBuf, variables: BTreeMap<OsString, OsString>) -> Self {
        Self { root, variables, installer_variables: None, rules: PackageRules::default() }
    }

    #[must_use]
    pub fn with_rules(self, rules: PackageRules) -> Self {
        Self { rules, ..self }
    }

    /// Restricts `python3`, `uv` and `pip`, which run code from packages, to `variables`.
    #[must_use]
    pub fn with_installer_variables(self, variables: BTreeMap<OsString, OsString>) -> Self {
        Self { installer_variables: Some(variables), ..self }
    }

    /// Returns the environment of `request`, building it if necessary. Waits if another process is building it.
    ///
    /// Dropping the future kills the installer and its child processes. The next call removes an incomplete
    /// environment.
    ///
    /// # Errors
    /// See [`PackageError`]. After a failure only the log remains, and the next call retries.
    pub async fn prepare(&self, request: &EnvironmentRequest) -> Result<PreparedEnvironment, PackageError> {
        self.prepare_observed(request, &|_| {}).await
    }

    /// Like [`Self::prepare`]. Calls `observer` before each potentially slow step.
    pub async fn prepare_observed(
        &self,
        request: &EnvironmentRequest,
        observer: &(dyn Fn(Step) + Send + Sync),
    ) -> Result<PreparedEnvironment, PackageError> {
        self.check_requirements(&request.requirements)?;
        let root = self.make_root(request.user.as_ref())?;
        let variables = self.installer_variables.as_ref().unwrap_or(&self.variables);
        let installer = Installer::find(variables, request.python.as_deref()).await?;
        let mut packages = Vec::with_capacity(request.packages.len());
        for package in &request.packages {
            packages.push(match package {
                Package::Archive(source) => {
                    observer(Step::Fetching { uri: source.to_string() });
                    let user = request.user.as_ref().map(ProgramUser::files);
                    Content::Archive(fetch::fetch(source, user, &root, &self.variables, &self.rules).await?)
                }
                Package::Local(archive) => Content::Archive(fetch::read_local(archive).await?),
                Package::Folder(folder) => {
                    let (folder, user) = (folder.clone(), request.user.as_ref().map(ProgramUser::files));
                    let read = move || match user {
                        Some(user) => user.run(|| folder.read()).map_err(PackageError::io("read", folder.path()))?,
                        None => folder.read(),
                    };
                    Content::Folder(unblock(read).await?)
                }
                Package::Packed(packed) => Content::Packed(packed.clone()),
            });
        }
        let hash = hash(&installer, &packages, &request.requirements);
        let directory = root.join(&hash);
        let environment = PreparedEnvironment {
            python: directory.join("python/bin/python"),
            python_version: installer.short_version(),
            log: directory.join("install.log"),
        };

        let lock_path = root.join(format!("{hash}.lock"));
        let wait = || observer(Step::Waiting { log: environment.log.clone() });
        let lock = lock::exclusive_after(&lock_path, wait).await.map_err(PackageError::io("lock", &lock_path))?;
        let ready = directory.join("ready");
        // The interpreter is a link to one of the system, which may have been removed.
        if ready.exists() && environment.python.exists() {
            tracing::debug!(environment.path = %directory.display(), "the Python environment exists already");
            retention::touch(&ready).map_err(PackageError::io("write", &ready))?;
            return Ok(environment);
        }
        tracing::info!(environment.path = %directory.display(), installer = installer.name(), "installing packages");
        let targets = {
            let directory = directory.clone();
            let user = request.user.clone();
            unblock(move || start_over(&directory, packages, user.as_ref())).await?
        };
        let log = File::create(&environment.log).map_err(PackageError::io("create", &environment.log))?;
        observer(Step::Installing { installer: installer.name(), log: environment.log.clone() });
        let process = InstallerProcess {
            lock,
            log,
            log_path: environment.log.clone(),
            directory: directory.clone(),
            user: request.user.clone(),
            max_time: self.rules.max_install_time,
        };
        for (package, target) in request.packages.iter().zip(&targets) {
            if let Package::Archive(source) | Package::Local(LocalArchive { source, .. }) = package {
                entries::check(&installer, &source.to_string(), target, &self.rules).await?;
            }
        }
        installer.install(&process, &directory.join("python"), &targets, &request.requirements).await?;
        unblock(move || finish(&directory, &ready)).await?;
        Ok(environment)
    }

    /// Refuses requirements that name an address or a path instead of a package of the index.
    fn check_requirements(&self, requirements: &[String]) -> Result<(), PackageError> {
        let named = requirements.iter().find(|requirement| requirement.contains('/') || requirement.starts_with('.'));
        match named.filter(|_| !self.rules.allow_private_addresses) {
            None => Ok(()),
            Some(requirement) => Err(PackageError::Refused {
                uri: requirement.clone(),
                detail: "a requirement on a server names a package of its index, not an address or a path; give an \
                         archive in packageUris"
                    .to_owned(),
            }),
        }
    }

    fn make_root(&self, user: Option<&ProgramUser>) -> Result<PathBuf, PackageError> {
        fs::create_dir_all(&self.root).map_err(PackageError::io("create", &self.root))?;
        // The path must be absolute, because installers run in another working directory.
        let root = fs::canonicalize(&self.root).map_err(PackageError::io("find", &self.root))?;
        let Some(user) = user else { return Ok(root) };
        let of_user = root.join(format!("user-{}", user.uid));
        fs::create_dir_all(&of_user).map_err(PackageError::io("create", &of_user))?;
        for folder in [&root, &of_user] {
            user_folder::let_pass(folder).map_err(PackageError::io("change the mode of", folder))?;
        }
        Ok(of_user)
    }
}

enum Content {
    Archive(Fetched),
    Folder(source_folder::FolderContent),
    Packed(PackedFolder),
}

fn hash(installer: &Installer, packages: &[Content], requirements: &[String]) -> String {
    let mut digest = Sha256::new();
    let mut add = |kind: &str, value: &[u8]| {
        for part in [kind.as_bytes(), value] {
            // Length prefixes, so that different lists of parts give different bytes.
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
            Content::Packed(packed) => {
                add("archive", packed.file_name.as_bytes());
                add("content", &Sha256::digest(&packed.bytes));
            }
        }
    }
    for requirement in requirements {
        add("requirement", requirement.as_bytes());
    }
    hex::encode(digest.finalize())
}

/// Clears `directory` and writes the packages to it. Returns the paths to install.
fn start_over(
    directory: &Path,
    packages: Vec<Content>,
    user: Option<&ProgramUser>,
) -> Result<Vec<PathBuf>, PackageError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(PackageError::io("remove", directory)(error));
        }
        _ => {}
    }
    let mut targets = Vec::with_capacity(packages.len());
    for (index, package) in packages.into_iter().enumerate() {
        // A folder per package, because two may have the same file name.
        let place = packages_folder(directory).join(index.to_string());
        fs::create_dir_all(&place).map_err(PackageError::io("create", &place))?;
        targets.push(match package {
            Content::Archive(fetched) => fetched.write_into(&place)?,
            Content::Folder(folder) => {
                folder.write_into(&place)?;
                place
            }
            Content::Packed(packed) => packed.write_into(&place)?,
        });
    }
    fs::create_dir_all(directory).map_err(PackageError::io("create", directory))?;
    if let Some(user) = user {
        // This process owns the folder itself, whose log and marker installers must not change.
        let prepared = user_folder::prepare(directory, &packages_folder(directory), user);
        prepared.map_err(PackageError::io("prepare", directory))?;
    }
    Ok(targets)
}

/// Syncs the environment to disk, then marks it as complete.
fn finish(directory: &Path, ready: &Path) -> Result<(), PackageError> {
    match fs::remove_dir_all(packages_folder(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(PackageError::io("remove", directory)(error));
        }
        _ => {}
    }
    // Installers do not sync their files: after a power failure the marker could exist beside empty files.
    let folder = File::open(directory).map_err(PackageError::io("open", directory))?;
    rustix::fs::syncfs(&folder).map_err(|error| PackageError::io("sync", directory)(error.into()))?;
    let marker = File::create(ready).map_err(PackageError::io("create", ready))?;
    marker.sync_all().and_then(|()| folder.sync_all()).map_err(PackageError::io("sync", ready))
}

fn packages_folder(directory: &Path) -> PathBuf {
    directory.join("packages")
}

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
