//! Folders created before a program starts.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::ExecutorJobSpec;
use super::reports::metric_file;
use tunesmith_files::create_folder_for_user;

/// Failures to create the folders of an attempt.
#[derive(Debug)]
pub enum FolderFailure {
    /// The job names a folder that can never be created.
    OfJob(String),
    /// The file system failed, possibly only temporarily.
    OfService(io::Error),
}

/// Creates the folder of the attempt, including that of its metric file, and the folders for the program's output with
/// a mode according to the user's umask. With `as_another_user`, the engine creates the latter.
///
/// # Errors
/// [`FolderFailure`], which names the folder.
pub fn create_folders(spec: &ExecutorJobSpec, as_another_user: bool) -> Result<(), FolderFailure> {
    let metrics = metric_file(&spec.directory);
    if let Some(folder) = metrics.parent() {
        // Located in the service's data folder, which jobs do not choose.
        fs::create_dir_all(folder).map_err(|error| FolderFailure::OfService(named("its folder", folder, error)))?;
    }
    if as_another_user {
        return Ok(());
    }
    for folder in &spec.program_folders {
        create_folder_for_user(folder).map_err(|error| {
            let may_pass = may_pass(&error);
            let error = named("its job folder", folder, error);
            if may_pass { FolderFailure::OfService(error) } else { FolderFailure::OfJob(error.to_string()) }
        })?;
    }
    Ok(())
}

/// Whether an operation that failed with `error` may succeed later: the cause is a shortage or fault of the machine,
/// such as a full disk, too many open files or an unavailable file server, not the request.
pub fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ExecutableFileBusy, HostUnreachable, NetworkDown, NetworkUnreachable, NotConnected, OutOfMemory, QuotaExceeded,
        ResourceBusy, StaleNetworkFileHandle, StorageFull, TimedOut, WouldBlock,
    };
    const OTHERS: [Errno; 5] = [Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOLCK, Errno::REMOTEIO];
    let is_other = OTHERS.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    is_other
        || matches!(
            error.kind(),
            ExecutableFileBusy
                | HostUnreachable
                | NetworkDown
                | NetworkUnreachable
                | NotConnected
                | OutOfMemory
                | QuotaExceeded
                | ResourceBusy
                | StaleNetworkFileHandle
                | StorageFull
                | TimedOut
                | WouldBlock
        )
}

fn named(what: &str, folder: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {} cannot be created: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_and_faults_may_pass_and_wrong_paths_do_not() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::STALE] {
            assert!(may_pass(&error(errno)), "{errno}");
        }
        for errno in
            [Errno::ACCESS, Errno::PERM, Errno::NOTDIR, Errno::ROFS, Errno::NAMETOOLONG, Errno::LOOP, Errno::NOEXEC]
        {
            assert!(!may_pass(&error(errno)), "{errno}");
        }
    }
}
