//! Revocation of other users' access to an existing data folder.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Names in a data folder. Other entries belong to the user.
const NAMES: [&str; 24] = [
    "LOCK",
    "STORE",
    "TOKENS",
    "audit",
    "environments",
    "executions",
    "job-dirs",
    "jobs",
    "local",
    "optuna.sqlite",
    "optuna.sqlite-shm",
    "optuna.sqlite-wal",
    "packages",
    "projects",
    "store.sled",
    "store.sqlite",
    "store.sqlite-acknowledged",
    "store.sqlite-shm",
    "store.sqlite-wal",
    "suggestions",
    "tracking",
    "tokens.json",
    "tokens.json.new",
    "webhooks",
];

/// Makes the entries of the data folder `path` private; a restored backup may have other modes. Other users may still
/// traverse folders, as programs of `--run-as` must.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    for name in NAMES {
        let entry = path.join(name);
        let metadata = match entry.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let kept = if metadata.is_dir() { 0o711 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o7777;
        if !metadata.is_symlink() && mode & !kept != 0 {
            fs::set_permissions(&entry, PermissionsExt::from_mode(mode & kept))?;
        }
    }
    Ok(())
}

/// Creates the folder `path`, closed to other users.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}
