//! Modes of created files.
//!
//! Files of a data folder are private: the process sets the umask 077 on start-up. Files for the user, such as exported
//! results and trained models, follow the user's umask.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::umask;

const PRIVATE: u32 = 0o077;

static OF_USER: OnceLock<u32> = OnceLock::new();

/// Makes all files that this process creates private. Call it on start-up, before other threads create files. Further
/// calls have no effect.
pub fn use_private_umask() {
    OF_USER.get_or_init(|| umask(Mode::from_raw_mode(PRIVATE)).as_raw_mode());
}

/// Original umask of the process; `None` before [`use_private_umask`].
pub fn umask_of_user() -> Option<u32> {
    OF_USER.get().copied()
}

/// Creates or truncates a file for the user, with the mode from the user's umask. Keeps the mode of an existing file.
pub fn create_for_user(path: &Path) -> io::Result<File> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => {
            if let Some(umask) = umask_of_user() {
                file.set_permissions(Permissions::from_mode(0o666 & !umask))?;
            }
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::create(path),
        Err(error) => Err(error),
    }
}

/// Creates the folder `path` for the user and its missing parents, with modes from the user's umask.
pub fn create_folder_for_user(path: &Path) -> io::Result<()> {
    let Some(umask) = umask_of_user() else { return fs::create_dir_all(path) };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        create_folder_for_user(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o777 & !umask)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
