//! Folders for installers that run as another user.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use walkdir::WalkDir;

use super::ProgramUser;

/// Lets all users traverse `folder`, but not list it.
pub fn let_pass(folder: &Path) -> io::Result<()> {
    let mode = folder.metadata()?.mode() & 0o7777;
    fs::set_permissions(folder, PermissionsExt::from_mode(mode | 0o011))
}

/// Prepares `directory` for installers of `user`, with write access to the environment and the folder of the packages.
pub(super) fn prepare(directory: &Path, packages: &Path, user: &ProgramUser) -> io::Result<()> {
    let_pass(directory)?;
    let environment = directory.join("python");
    fs::create_dir(&environment)?;
    lchown(&environment, Some(user.uid), Some(user.gid))?;
    if packages.exists() {
        for entry in WalkDir::new(packages) {
            lchown(entry?.path(), Some(user.uid), Some(user.gid))?;
        }
    }
    Ok(())
}
