//! Start of a replica.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Pid;
use tunesmith_files::RootedPath;

use super::identity::Identity;
use super::system::{self, become_user, die_with_parent};
use crate::{Replica, Role, tf_config::role_name};

/// Files in `directory` with a replica's standard output and error.
pub fn log_files(directory: &Path, replica: &Replica) -> (PathBuf, PathBuf) {
    if replica.role == Role::Master {
        return (directory.join("stdout.log"), directory.join("stderr.log"));
    }
    let name = replica_name(replica);
    (directory.join(format!("{name}-stdout.log")), directory.join(format!("{name}-stderr.log")))
}

/// Returns `<role>-<index>`, as used in names of log files.
pub(crate) fn replica_name(replica: &Replica) -> String {
    format!("{}-{}", role_name(replica.role, false), replica.index)
}

/// Starts `command` for `replica` in a new session without a terminal, with empty standard input and output appended to
/// its log files, optionally as the user `identity` and with `umask`. The kernel kills it when this process dies.
/// Returns the process and its open logs.
pub(super) fn start(
    mut command: Command,
    replica: &Replica,
    directory: &Path,
    identity: Option<&Identity>,
    umask: Option<u32>,
) -> io::Result<(Pid, [File; 2])> {
    let (stdout, stderr) = log_files(directory, replica);
    let (stdout, stderr) = (append(stdout)?, append(stderr)?);
    let logs = [stdout.try_clone()?, stderr.try_clone()?];
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    become_user(&mut command, identity, umask);
    die_with_parent(&mut command);
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the system returned an invalid process ID"))?;
    Ok((pid, logs))
}

/// Prepares `command` to run as the user `identity` in a new session without a terminal. The kernel kills its process
/// when the thread that starts it ends.
pub fn confine(command: &mut Command, identity: Option<&Identity>) {
    become_user(command, identity, None);
    die_with_parent(command);
}

/// Limits the memory that the process of `command` may write to, and the size of each file that it writes.
pub fn limit(command: &mut Command, memory_bytes: u64, file_bytes: u64) {
    system::limit(command, memory_bytes, file_bytes);
}

/// Prepares `command` to run as the user `identity`. Its process outlives this one.
pub fn run_as(command: &mut Command, identity: Option<&Identity>) {
    become_user(command, identity, None);
}

/// Opens a log. It is an error if an earlier program replaced the log by a link or a pipe. The program gets the file in
/// blocking mode.
fn append(path: PathBuf) -> io::Result<File> {
    let file = RootedPath::from(path).append()?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}
