//! Access control for the folders and buckets in jobs.
//!
//! The server opens paths from requests (`jobDir`, `packageUris`) with its own rights. On a server with tokens, callers
//! are therefore restricted to the locations listed by the operator ([`AllowedFolder`]) and their project's area in the
//! data folder. Without tokens, the only caller owns the process, so every folder is allowed.
//!
//! [`tunesmith_files::RootedPath`] opens the files.

mod data_folder;
mod job_folder;
mod listed;
mod model;
mod package;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use self::data_folder::DataFolder;
pub(crate) use self::job_folder::{HostFolder, JobFolder};
pub use self::listed::{AllowedFolder, AllowedFolderError, Location};
pub use self::model::{ModelFolder, ModelFolderError};
pub(crate) use self::package::PackageReader;
use tunesmith_files::RootedPath;
use tunesmith_objects::ObjectAddress;
use tunesmith_packages::{ProgramUser, let_pass};

/// Subfolder of the data folder with one area per project.
const AREAS: &str = "job-dirs";

/// Folders and buckets open to jobs. The default allows all.
#[derive(Default)]
pub struct AllowedFolders {
    restriction: Option<Restriction>,
}

struct Restriction {
    listed: RwLock<Arc<[AllowedFolder]>>,
    /// Parent of the project areas; no component is a link.
    areas: PathBuf,
    /// May also be mounted below a listed folder, whole or in part.
    data_folder: DataFolder,
    /// Whether the restriction is currently in force.
    applies: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A folder or bucket that is off limits to the job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{value:?} is not allowed on this server: {}; other folders and buckets are allowed by its operator, with --allowed-folder or \
     allowedFolders in the server configuration",
    allowed_text(allowed)
)]
pub struct NotAllowed {
    pub value: String,
    /// Locations allowed for the project.
    pub allowed: Vec<String>,
}

fn allowed_text(allowed: &[String]) -> String {
    match allowed {
        [] => "no folder and no bucket is allowed for this job".to_owned(),
        allowed => format!("allowed are {}, and what is below", allowed.join(", ")),
    }
}

impl fmt::Debug for AllowedFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.restriction.iter().flat_map(|restriction| restriction.listed().to_vec())).finish()
    }
}

impl AllowedFolders {
    /// While `applies` returns true, allows only `listed` and the project areas in `data_dir`; otherwise everything.
    ///
    /// # Errors
    /// [`AllowedFolderError`] if a listed folder would expose the server's files or another project's.
    pub fn new(
        listed: Vec<AllowedFolder>,
        data_dir: &Path,
        applies: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Self, AllowedFolderError> {
        let not_found = |source| AllowedFolderError::DataFolder { path: data_dir.to_owned(), source };
        let resolved = fs::canonicalize(data_dir).map_err(not_found)?;
        let areas = resolved.join(AREAS);
        let data_folder = DataFolder::new(resolved).map_err(not_found)?;
        listed::check(&listed, &data_folder)?;
        let listed = RwLock::new(listed.into());
        Ok(Self { restriction: Some(Restriction { listed, areas, data_folder, applies }) })
    }

    /// Replaces the listed folders for later calls. No effect on the default, which allows all.
    ///
    /// # Errors
    /// As [`Self::new`]; the earlier list then stays.
    pub fn set_listed(&self, listed: Vec<AllowedFolder>) -> Result<(), AllowedFolderError> {
        let Some(restriction) = &self.restriction else { return Ok(()) };
        listed::check(&listed, &restriction.data_folder)?;
        *restriction.listed.write() = listed.into();
        Ok(())
    }

    /// Base of relative job folders of `project`; `None` for the working directory.
    pub fn base(&self, project: &str) -> Option<PathBuf> {
        Some(self.restriction()?.areas.join(project))
    }

    /// Whether programs of `project` may use the folder `path` of this machine.
    pub(crate) fn allows(&self, project: &str, path: &Path) -> bool {
        self.restriction().is_none_or(|restriction| restriction.path(project, path, true).is_some())
    }

    fn restriction(&self) -> Option<&Restriction> {
        self.restriction.as_ref().filter(|restriction| (restriction.applies)())
    }
}

impl Restriction {
    /// Resolves `path` for a job of `project` if allowed; with `is_here`, also in the project's area.
    fn path(&self, project: &str, path: &Path, is_here: bool) -> Option<PathBuf> {
        if !is_plain(path) {
            return None;
        }
        let area = self.areas.join(project);
        if is_here && path.starts_with(&area) {
            return Some(path.components().collect());
        }
        self.of(project)
            .iter()
            .find_map(|allowed| allowed.resolve(path))
            .filter(|path| !is_here || !self.data_folder.has(path))
    }

    /// Rooted form of the allowed `path`: no links, and never into the data folder except into an area.
    fn place(&self, path: &Path) -> RootedPath {
        let closed = if path.starts_with(&self.areas) { Arc::default() } else { self.data_folder.identities().into() };
        RootedPath::without_links(path).outside_of(closed)
    }

    fn has_address(&self, project: &str, address: &ObjectAddress) -> bool {
        self.of(project)
            .iter()
            .any(|allowed| matches!(&allowed.location, Location::Objects(folder) if folder.contains(address)))
    }

    fn listed(&self) -> Arc<[AllowedFolder]> {
        Arc::clone(&self.listed.read())
    }

    fn of(&self, project: &str) -> Vec<AllowedFolder> {
        let is_open = |allowed: &&AllowedFolder| allowed.project.as_deref().is_none_or(|only| only == project);
        self.listed().iter().filter(is_open).cloned().collect()
    }

    fn refuse(&self, project: &str, value: &str, is_here: bool) -> NotAllowed {
        let area = is_here.then(|| self.areas.join(project).display().to_string());
        let listed = self.of(project).into_iter().map(|allowed| allowed.location.to_string());
        NotAllowed { value: value.to_owned(), allowed: area.into_iter().chain(listed).collect() }
    }

    /// Creates the area of `project` if it contains `path`, owned by `user`, who may traverse its parents.
    fn prepare(&self, project: &str, path: &Path, user: Option<&ProgramUser>) -> io::Result<()> {
        let area = self.areas.join(project);
        if !path.starts_with(&area) {
            return Ok(());
        }
        for folder in [&self.areas, &area] {
            match fs::DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let Some(user) = user else { return Ok(()) };
        for folder in [self.areas.parent().unwrap_or(&self.areas), &self.areas] {
            let_pass(folder)?;
        }
        // A concurrent attempt may have created the area without changing its owner yet.
        if fs::metadata(&area)?.uid() == fs::metadata(&self.areas)?.uid() {
            chown(&area, Some(user.uid), Some(user.gid))?;
        }
        Ok(())
    }
}

/// Whether `path` is absolute and unambiguous: no `..`, no NUL.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
