//! A folder that appears only once it is complete.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::DataDirError;
use super::private::create_private;

/// Folder being filled beside its later path; removed unless finished.
#[derive(Debug)]
pub(super) struct NewFolder {
    path: PathBuf,
    target: PathBuf,
}

impl NewFolder {
    /// Starts the folder `target`, which is missing or empty.
    ///
    /// # Errors
    /// [`DataDirError::NotEmpty`], [`DataDirError::Io`].
    pub(super) fn start(target: &Path) -> Result<Self, DataDirError> {
        let target = std::path::absolute(target).map_err(DataDirError::io("find", target))?;
        let name = target.file_name().ok_or_else(|| DataDirError::NotEmpty { path: target.clone() })?;
        match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => return Err(DataDirError::NotEmpty { path: target }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(DataDirError::io("read", &target)(error)),
        }
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(format!(".partial-{}", std::process::id()));
        let path = target.with_file_name(partial);
        create_private(&path).map_err(DataDirError::io("create", &path))?;
        Ok(Self { path, target })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder to its path. Its files are durable.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub(super) fn finish(self) -> Result<PathBuf, DataDirError> {
        let rename = || {
            rustix::fs::syncfs(fs::File::open(&self.path)?)?;
            fs::rename(&self.path, &self.target)?;
            fs::File::open(self.target.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        rename().map_err(DataDirError::io("write", &self.target))?;
        Ok(self.target.clone())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "an incomplete folder cannot be removed");
            }
            _ => {}
        }
    }
}
