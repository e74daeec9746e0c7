//! Copies of the files of versions.
//!
//! ```text
//! <root>/<project>/<uid>/model/            files of the model
//! <root>/<project>/<uid>/packages/         installed packages, for `sys.path`
//! <root>/<project>/<uid>/bin/              their scripts, for `sys.path`
//! <root>/<project>/<uid>/archives/         packages that pods install
//! <root>/<project>/<uid>/complete          exists once all of it is there
//! <root>/<project>/<uid>/worker.log        output of the workers
//! <root>/<project>/<uid>/work/             working folders of the workers
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use tunesmith_executor::local::Identity;
use tunesmith_files::{OpenError, RootedPath};
use tunesmith_packages::let_pass;

/// Maximum number of files of a model, as in AI Platform.
pub const MAX_FILES: usize = 1000;

/// Maximum size of the files of a model in bytes. AI Platform allowed 500 MB on MLS1 and 10 GB on N1 machines, from memory.
pub const MAX_MODEL_BYTES: u64 = 10 << 30;

/// Limits of installed packages; guesses.
pub(crate) const MAX_PACKAGE_FILES: usize = 200_000;
pub(crate) const MAX_PACKAGE_BYTES: u64 = 20 << 30;

const MAX_DEPTH: usize = 32;

/// Packages that an environment has for its own sake.
pub(crate) const INSTALLERS: [&str; 2] = ["pip", "__pycache__"];

/// Folder of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionFolder {
    /// Folder of all projects.
    root: PathBuf,
    path: PathBuf,
}

/// A failed copy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("{path} has more than {limit} files")]
    TooMany { path: PathBuf, limit: usize },
    #[error("the files of {path} have more than {limit_mib} MiB")]
    TooLarge { path: PathBuf, limit_mib: u64 },
    #[error("{path} does not exist, or has no files")]
    Empty { path: PathBuf },
    #[error("{path} is neither a regular file nor a folder; links are not followed")]
    Special { path: PathBuf },
    #[error("{path} is nested more than {MAX_DEPTH} folders deep")]
    TooDeep { path: PathBuf },
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: OpenError },
    #[error("{path} cannot be written: {source}")]
    NotWritten { path: PathBuf, source: io::Error },
}

impl VersionFolder {
    pub(crate) fn new(root: &Path, project: &str, uid: &str) -> Self {
        Self { root: root.to_owned(), path: root.join(project).join(uid) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.path.join("model")
    }

    pub(crate) fn packages(&self) -> PathBuf {
        self.path.join("packages")
    }

    pub(crate) fn scripts(&self) -> PathBuf {
        self.path.join("bin")
    }

    pub(crate) fn archives(&self) -> PathBuf {
        self.path.join("archives")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("worker.log")
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.path.join("complete").exists()
    }

    /// Creates the empty folder, without what an interrupted creation left. A `user` may pass through the folders above, as
    /// installers of packages and workers do.
    pub(crate) fn start_over(&self, user: Option<&Identity>) -> io::Result<()> {
        self.remove()?;
        for folder in [self.model(), self.work()] {
            fs::create_dir_all(folder)?;
        }
        if user.is_some() {
            // The folder of models and the data folder.
            self.root.ancestors().skip(1).take(2).try_for_each(let_pass)?;
        }
        Ok(())
    }

    /// Gives the files to `user`, who cannot change them, and marks the folder as complete. Files of containers are for any
    /// user of the container.
    pub(crate) fn finish(&self, user: Option<&Identity>, is_of_container: bool) -> io::Result<()> {
        let modes = if is_of_container { (0o444, 0o555) } else { (0o400, 0o500) };
        for folder in [self.model(), self.packages(), self.scripts(), self.archives()] {
            if folder.exists() {
                seal(&folder, user, modes)?;
            }
        }
        if user.is_some() {
            for folder in self.path.ancestors().take_while(|folder| folder.starts_with(&self.root)) {
                let_pass(folder)?;
            }
            let_pass(&self.work())?;
        }
        let folder = File::open(&self.path)?;
        rustix::fs::syncfs(&folder)?;
        File::create(self.path.join("complete"))?.sync_all()?;
        folder.sync_all()
    }

    /// Removes working folders of former processes.
    pub(crate) fn clear_work(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.work())? {
            fs::remove_dir_all(entry?.path())?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        // The marker first, so that an interrupted removal is not taken for a version.
        match fs::remove_file(self.path.join("complete")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        make_removable(&self.path)?;
        fs::remove_dir_all(&self.path)
    }
}

/// Takes write access away from `folder` and all below it, which belong to `user` from then on.
fn seal(folder: &Path, user: Option<&Identity>, (file, directory): (u32, u32)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            seal(&entry.path(), user, (file, directory))?;
        } else if kind.is_file() {
            give(&entry.path(), file, user)?;
        }
    }
    give(folder, directory, user)
}

fn give(path: &Path, mode: u32, user: Option<&Identity>) -> io::Result<()> {
    fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    user.map_or(Ok(()), |user| lchown(path, Some(user.uid), Some(user.gid)))
}

/// Lets this process remove the entries of `folder` and of all folders below it.
fn make_removable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Copies the files below `from` into the new or empty folder `to`, without the entries `skipped` of `from` itself.
/// Returns their number.
pub(crate) fn copy(
    from: &RootedPath,
    to: &Path,
    skipped: &'static [&'static str],
    (max_files, max_bytes): (usize, u64),
) -> Result<usize, CopyError> {
    let mut copy = Copy { root: from.path(), files: 0, bytes: 0, max_files, max_bytes, skipped };
    copy.folder(from, to, 0)?;
    if copy.files == 0 {
        return Err(CopyError::Empty { path: from.path() });
    }
    Ok(copy.files)
}

struct Copy {
    root: PathBuf,
    files: usize,
    bytes: u64,
    max_files: usize,
    max_bytes: u64,
    skipped: &'static [&'static str],
}

impl Copy {
    fn folder(&mut self, from: &RootedPath, to: &Path, depth: usize) -> Result<(), CopyError> {
        let path = from.path();
        if depth > MAX_DEPTH {
            return Err(CopyError::TooDeep { path });
        }
        let entries = match from.entries() {
            Err(error) if error.is_not_found() && depth == 0 => return Err(CopyError::Empty { path }),
            entries => entries.map_err(|source| CopyError::Unreadable { path: path.clone(), source })?,
        };
        fs::create_dir_all(to).map_err(|source| CopyError::NotWritten { path: to.to_owned(), source })?;
        for entry in entries {
            if depth == 0 && self.skipped.iter().any(|name| entry.name == *name) {
                continue;
            }
            let (source, target) = (from.join(&entry.name), to.join(&entry.name));
            if entry.is_folder {
                self.folder(&source, &target, depth + 1)?;
            } else if entry.is_file {
                self.file(&source, &target)?;
            } else {
                return Err(CopyError::Special { path: source.path() });
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &RootedPath, to: &Path) -> Result<(), CopyError> {
        self.files += 1;
        if self.files > self.max_files {
            return Err(CopyError::TooMany { path: self.root.clone(), limit: self.max_files });
        }
        let mut source = from.open().map_err(|source| CopyError::Unreadable { path: from.path(), source })?;
        let failed = |source| CopyError::NotWritten { path: to.to_owned(), source };
        let mut target = File::create_new(to).map_err(failed)?;
        let left = self.max_bytes - self.bytes;
        let copied = io::copy(&mut io::Read::take(&mut source, left + 1), &mut target).map_err(failed)?;
        if copied > left {
            return Err(CopyError::TooLarge { path: self.root.clone(), limit_mib: self.max_bytes >> 20 });
        }
        self.bytes += copied;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> (tempfile::TempDir, RootedPath) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("m").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let place = RootedPath::new(folder.path(), "m");
        (folder, place)
    }

    #[test]
    fn files_are_copied_within_limits() {
        let (folder, place) = folder_with(&[("model.pkl", "12345"), ("data/a/b.txt", "6")]);
        let to = folder.path().join("to");
        assert_eq!(copy(&place, &to, &[], (2, 6)).unwrap(), 2);
        assert_eq!(fs::read_to_string(to.join("data/a/b.txt")).unwrap(), "6");
        let refused = |files, bytes| {
            fs::remove_dir_all(&to).unwrap();
            copy(&place, &to, &[], (files, bytes)).unwrap_err()
        };
        assert!(matches!(refused(1, 6), CopyError::TooMany { limit: 1, .. }));
        assert!(matches!(refused(2, 5), CopyError::TooLarge { .. }));
        symlink("/etc/passwd", folder.path().join("m/link")).unwrap();
        assert!(matches!(refused(9, 99), CopyError::Special { .. }));
        let missing = RootedPath::new(folder.path(), "none");
        assert!(matches!(copy(&missing, &folder.path().join("x"), &[], (1, 1)), Err(CopyError::Empty { .. })));
    }

    #[test]
    fn version_is_sealed_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let version = VersionFolder::new(root.path(), "p", "u");
        version.start_over(None).unwrap();
        fs::create_dir(version.model().join("deep")).unwrap();
        fs::write(version.model().join("deep/x"), "1").unwrap();
        assert!(!version.is_complete());
        version.finish(None, false).unwrap();
        assert!(version.is_complete());
        let mode = fs::metadata(version.model().join("deep/x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o400);
        version.remove().unwrap();
        assert!(!version.path().exists());
    }
}
