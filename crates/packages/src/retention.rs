//! Eviction of unused environments.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Environments, PackageError};

/// File whose modification time is the last use of an environment.
const MARKER: &str = "ready";

/// Records a use of the environment with the marker `ready`.
pub(super) fn touch(ready: &Path) -> io::Result<()> {
    File::options().write(true).open(ready)?.set_modified(SystemTime::now())
}

impl Environments {
    /// Removes environments last used before `unused_since`, and returns their folders. Keeps environments being built.
    /// `unused_since` must precede the start of every running job. Blocks.
    ///
    /// # Errors
    /// [`PackageError::Io`]; other environments may have been removed.
    pub fn prune(&self, unused_since: SystemTime) -> Result<Vec<PathBuf>, PackageError> {
        let mut removed = Vec::new();
        let mut roots = vec![self.root.clone()];
        while let Some(root) = roots.pop() {
            for entry in folders(&root).map_err(PackageError::io("list", &root))? {
                let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with("user-") {
                    roots.push(entry);
                } else if remove_unused(&root, &entry, unused_since).map_err(PackageError::io("remove", &entry))? {
                    removed.push(entry);
                }
            }
        }
        Ok(removed)
    }
}

/// Removes the environment `directory`, unless it is in use or incomplete. Returns whether it was removed.
fn remove_unused(root: &Path, directory: &Path, unused_since: SystemTime) -> io::Result<bool> {
    let last_use = match directory.join(MARKER).metadata() {
        Ok(marker) => marker.modified()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if last_use >= unused_since {
        return Ok(false);
    }
    let mut lock = directory.file_name().unwrap_or_default().to_owned();
    lock.push(".lock");
    // The lock file remains: another process may be waiting for it.
    let lock = File::options().create(true).truncate(false).write(true).open(root.join(lock))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Removed first: without it, the rest is incomplete.
    fs::remove_file(directory.join(MARKER))?;
    fs::remove_dir_all(directory)?;
    Ok(true)
}

/// Folders in `root`; none if it does not exist.
fn folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_complete_environments_that_were_not_used_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let environments = Environments::new(root.path().to_owned());
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        let make = |name: &str, age_days: u32| {
            let folder = root.path().join(name);
            fs::create_dir_all(folder.join("python")).unwrap();
            let marker = File::create(folder.join(MARKER)).unwrap();
            marker.set_modified(now - day * age_days).unwrap();
        };
        for (name, age_days) in [("old", 9), ("recent", 1), ("locked", 9), ("touched", 9), ("user-7/old", 9)] {
            make(name, age_days);
        }
        touch(&root.path().join("touched").join(MARKER)).unwrap();
        fs::create_dir_all(root.path().join("incomplete")).unwrap();
        let lock = File::create(root.path().join("locked.lock")).unwrap();
        lock.lock().unwrap();
        let mut removed = environments.prune(now - day * 5).unwrap();
        removed.sort();
        assert_eq!(removed, [root.path().join("old"), root.path().join("user-7/old")]);
        for kept in ["recent", "locked", "touched", "incomplete"] {
            assert!(root.path().join(kept).exists(), "{kept}");
        }
        assert!(!root.path().join("old").exists());
        assert_eq!(Environments::new(root.path().join("absent")).prune(now).unwrap(), Vec::<PathBuf>::new());
    }
}
