//! The `PATH` of the programs that tests start.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::temporary_folder;
use sha2::{Digest, Sha256};

/// The folders of the programs of a system.
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The interpreters that may be elsewhere, each with the command that prints the path of its program. Version managers have
/// scripts of these names, which depend on the home folder and variables of their user.
const INTERPRETERS: [(&str, [&str; 3]); 3] = [
    ("python3", ["python3", "-c", "import sys; print(sys.executable)"]),
    ("node", ["node", "-p", "process.execPath"]),
    ("npm", ["node", "-p", "require('path').join(process.execPath, '../npm')"]),
];

/// The `PATH` of the programs of tests: the interpreters of the `PATH` of this process, then the folders of the system. Nothing
/// else that the user's `PATH` has changes a test.
pub fn path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| path_of(&std::env::var_os("PATH").unwrap_or_else(|| SYSTEM.into())))
}

/// The `PATH` of tests where that of the user is `user`. Its folder with interpreters is kept between processes and runs.
pub fn path_of(user: &OsStr) -> String {
    let folders = temporary_folder().join("interpreters");
    if std::env::split_paths(user).next().is_some_and(|first| first.starts_with(&folders)) {
        // This process was started by a test.
        return user.to_str().unwrap().to_owned();
    }
    let folder = folders.join(&hex::encode(Sha256::digest(user.as_bytes()))[..16]);
    let path = format!("{}:{SYSTEM}", folder.display());
    if folder.exists() {
        return path;
    }
    std::fs::create_dir_all(&folders).unwrap();
    let made = tempfile::tempdir_in(&folders).unwrap();
    for (name, [program, arguments @ ..]) in INTERPRETERS {
        let Ok(answer) = Command::new(program).args(arguments).env("PATH", user).output() else { continue };
        let found = PathBuf::from(OsStr::from_bytes(answer.stdout.trim_ascii_end()));
        if found.is_absolute() && found.exists() {
            // A link to Python does not find its library in every installation.
            let script = made.path().join(name);
            std::fs::write(&script, format!("#!/bin/sh\nexec '{}' \"$@\"\n", found.display())).unwrap();
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
    std::fs::set_permissions(made.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // Another process may have made the same.
    if std::fs::rename(made.path(), &folder).is_ok() {
        let _ = made.keep();
    }
    path
}
