//! The folders and buckets that jobs may name.
//!
//! A server opens what its callers name (`jobDir`, `packageUris`) with its own rights, so on a server with tokens they may name
//! only what the operator has listed ([`AllowedFolder`]), and the area of their project in the data folder. Without tokens, the
//! only caller owns the process, and any folder that this user may use is allowed.
//!
//! Not here: how files are opened ([`tunesmith_files::Place`]).

mod job_folder;
mod listed;
mod package;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Component, Path, PathBuf};

pub(crate) use self::job_folder::{HostFolder, JobFolder};
pub use self::listed::{AllowedFolder, AllowedFolderError, Location};
pub(crate) use self::package::PackageReader;
use tunesmith_files::Place;
use tunesmith_objects::ObjectAddress;
use tunesmith_packages::{ProgramUser, let_pass};

/// The folder of a data folder with an area for each project.
const AREAS: &str = "job-dirs";

/// The folders and buckets that jobs may name. The default allows all of them.
#[derive(Default)]
pub struct AllowedFolders {
    restriction: Option<Restriction>,
}

struct Restriction {
    listed: Vec<AllowedFolder>,
    /// The folder with an area for each project. No component is a link.
    areas: PathBuf,
    /// Device and inode of the data folder, which may be mounted below a listed folder as well.
    data_folder: (u64, u64),
    /// Whether the restriction applies now.
    applies: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A folder or bucket that a job may not name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{value:?} is not allowed on this server: {}; other folders and buckets are allowed by its operator, with --allowed-folder or \
     allowedFolders in the server configuration",
    Allowed(allowed)
)]
pub struct NotAllowed {
    /// The path or address.
    pub value: String,
    /// What the project may name.
    pub allowed: Vec<String>,
}

struct Allowed<'a>(&'a [String]);

impl fmt::Display for Allowed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no folder and no bucket is allowed for this job"),
            allowed => write!(f, "allowed are {}, and what is below", allowed.join(", ")),
        }
    }
}

impl fmt::Debug for AllowedFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.restriction.iter().flat_map(|restriction| &restriction.listed)).finish()
    }
}

impl AllowedFolders {
    /// Allows `listed` and an area of `data_dir` for each project, while `applies` returns true, and everything else otherwise.
    ///
    /// # Errors
    /// [`AllowedFolderError`] if a listed folder would give access to the files of the server, or to those of another project.
    pub fn new(
        listed: Vec<AllowedFolder>,
        data_dir: &Path,
        applies: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Self, AllowedFolderError> {
        let not_found = |source| AllowedFolderError::DataFolder { path: data_dir.to_owned(), source };
        let resolved = fs::canonicalize(data_dir).map_err(not_found)?;
        let metadata = fs::metadata(&resolved).map_err(not_found)?;
        listed::check(&listed, &resolved)?;
        let (areas, data_folder) = (resolved.join(AREAS), (metadata.dev(), metadata.ino()));
        Ok(Self { restriction: Some(Restriction { listed, areas, data_folder, applies }) })
    }

    /// The folder of relative job folders of `project`; `None` for the working directory.
    pub fn base(&self, project: &str) -> Option<PathBuf> {
        Some(self.restriction()?.areas.join(project))
    }

    /// The restriction, if it applies now.
    fn restriction(&self) -> Option<&Restriction> {
        self.restriction.as_ref().filter(|restriction| (restriction.applies)())
    }
}

impl Restriction {
    /// The path without links of `path`, which a job of `project` names, if it is allowed. With `is_here`, the area of the project
    /// is allowed as well.
    fn path(&self, project: &str, path: &Path, is_here: bool) -> Option<PathBuf> {
        if !is_plain(path) {
            return None;
        }
        let area = self.areas.join(project);
        if is_here && path.starts_with(&area) {
            return Some(path.components().collect());
        }
        self.of(project).find_map(|allowed| allowed.resolve(path)).filter(|path| !is_here || !self.is_data(path))
    }

    /// Whether `path` is the data folder or in it under another path, such as that of a bind mount.
    fn is_data(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
        // A link is refused when the path is opened, whatever it leads to.
        let is_plain = |above: &Path| fs::canonicalize(above).is_ok_and(|resolved| resolved == above);
        path.ancestors().any(|above| is_plain(above) && identity(above).is_ok_and(|found| found == self.data_folder))
    }

    /// The place of `path`, which is allowed. Without links, and outside of the data folder unless it is in an area.
    fn place(&self, path: &Path) -> Place {
        let closed = (!path.starts_with(&self.areas)).then_some(self.data_folder);
        Place::without_links(path).outside_of(closed)
    }

    /// Whether a job of `project` may name `address`.
    fn has_address(&self, project: &str, address: &ObjectAddress) -> bool {
        self.of(project)
            .any(|allowed| matches!(&allowed.location, Location::Objects(folder) if folder.contains(address)))
    }

    fn of(&self, project: &str) -> impl Iterator<Item = &AllowedFolder> {
        self.listed.iter().filter(move |allowed| allowed.project.as_deref().is_none_or(|only| only == project))
    }

    fn refuse(&self, project: &str, value: &str, is_here: bool) -> NotAllowed {
        let area = is_here.then(|| self.areas.join(project).display().to_string());
        let listed = self.of(project).map(|allowed| allowed.location.to_string());
        NotAllowed { value: value.to_owned(), allowed: area.into_iter().chain(listed).collect() }
    }

    /// Creates the area of `project` if `path` is in it. It belongs to `user`, who may pass through the folders above.
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
        // Another attempt may have created the area, and not have given it away yet.
        if fs::metadata(&area)?.uid() == fs::metadata(&self.areas)?.uid() {
            chown(&area, Some(user.uid), Some(user.gid))?;
        }
        Ok(())
    }
}

/// Whether `path` is absolute and leads nowhere else than to what it names: without `..` and without a NUL.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
