//! Start of one replica.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::system::die_with_parent;
use crate::{Replica, Role, tf_config::role_name};

/// Returns the files in `directory` of a replica's standard output and error.
pub fn log_files(directory: &Path, replica: &Replica) -> (PathBuf, PathBuf) {
    if replica.role == Role::Master {
        return (directory.join("stdout.log"), directory.join("stderr.log"));
    }
    let name = replica_name(replica);
    (directory.join(format!("{name}-stdout.log")), directory.join(format!("{name}-stderr.log")))
}

/// Returns `<role>-<index>`, as in the names of log files.
pub(super) fn replica_name(replica: &Replica) -> String {
    format!("{}-{}", role_name(replica.role, false), replica.index)
}

/// Starts `command` for `replica` in a new session without terminal, with empty standard input and its output appended
/// to its log files. The kernel kills it when this process dies.
pub(super) fn start(mut command: Command, replica: &Replica, directory: &Path) -> io::Result<Pid> {
    let (stdout, stderr) = log_files(directory, replica);
    command.stdin(Stdio::null()).stdout(append(&stdout)?).stderr(append(&stderr)?);
    die_with_parent(&mut command);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the system returned an invalid process ID"))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
