//! Copy of a tree of files that programs may change meanwhile.
//!
//! Programs of trials own parts of the tree. Every name is therefore opened relative to its folder, without following
//! links, so that nothing outside the tree is read.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::ops::AddAssign;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::DataDirError;

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilesCopied {
    pub files: u64,
    pub bytes: u64,
    /// Pipes, sockets and devices, which are not copied.
    pub special: u64,
    /// Files that belong to another user than the original, which only root can give away.
    pub other_owner: u64,
}

impl AddAssign for FilesCopied {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.special += other.special;
        self.other_owner += other.other_owner;
    }
}

/// Copies the tree `from` into the existing folder `to`, with modes, owners and times. Names at the top for which
/// `is_excluded` holds are left out. Files that disappear are left out; one that grows is copied up to its size when opened.
///
/// # Errors
/// [`DataDirError::Io`].
pub(super) fn copy_tree(
    from: &Path,
    to: &Path,
    is_excluded: impl Fn(&OsStr) -> bool,
) -> Result<FilesCopied, DataDirError> {
    let mut copied = FilesCopied::default();
    let folder = rustix::fs::open(from, FOLDER, Mode::empty()).map_err(|error| at("open", from)(error.into()))?;
    copy_entries(folder, from, to, &is_excluded, &mut copied)?;
    Ok(copied)
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A pipe in the place of a file must not block.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    DataDirError::io(operation, path)
}

fn copy_entries(
    folder: OwnedFd,
    from: &Path,
    to: &Path,
    is_excluded: &dyn Fn(&OsStr) -> bool,
    copied: &mut FilesCopied,
) -> Result<(), DataDirError> {
    let entries = Dir::read_from(&folder).map_err(|error| at("read", from)(error.into()))?;
    for entry in entries {
        let entry = entry.map_err(|error| at("read", from)(error.into()))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." || is_excluded(name) {
            continue;
        }
        let (source, target) = (from.join(name), to.join(name));
        match copy_entry(&folder, entry.file_name(), &source, &target, copied) {
            Err(DataDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            copy => copy?,
        }
    }
    Ok(())
}

fn copy_entry(
    folder: &OwnedFd,
    name: &CStr,
    from: &Path,
    to: &Path,
    copied: &mut FilesCopied,
) -> Result<(), DataDirError> {
    let read = |error: rustix::io::Errno| at("read", from)(error.into());
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            let inner = rustix::fs::openat(folder, name, FOLDER, Mode::empty()).map_err(read)?;
            super::private::create_private(to).map_err(at("create", to))?;
            copy_entries(inner, from, to, &|_| false, copied)?;
        }
        FileType::Symlink => {
            let link = rustix::fs::readlinkat(folder, name, Vec::new()).map_err(read)?;
            symlink(OsStr::from_bytes(link.as_bytes()), to).map_err(at("create", to))?;
        }
        FileType::RegularFile => {
            let source = File::from(rustix::fs::openat(folder, name, FILE, Mode::empty()).map_err(read)?);
            let metadata = source.metadata().map_err(at("read", from))?;
            if !metadata.is_file() {
                copied.special += 1;
                return Ok(());
            }
            let mut target = File::create_new(to).map_err(at("create", to))?;
            copied.bytes += io::copy(&mut source.take(metadata.len()), &mut target).map_err(at("copy", from))?;
            copied.files += 1;
        }
        _ => {
            copied.special += 1;
            return Ok(());
        }
    }
    copy_attributes(&found, to, copied).map_err(at("change", to))
}

/// Gives the copy the owner, the mode and the time of change that `found` states.
fn copy_attributes(found: &Stat, to: &Path, copied: &mut FilesCopied) -> io::Result<()> {
    let own = rustix::fs::lstat(to)?;
    if (own.st_uid, own.st_gid) != (found.st_uid, found.st_gid) {
        let (user, group) = (rustix::fs::Uid::from_raw(found.st_uid), rustix::fs::Gid::from_raw(found.st_gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::chownat(rustix::fs::CWD, to, Some(user), Some(group), flags) {
            Err(rustix::io::Errno::PERM) => copied.other_owner += 1,
            changed => changed?,
        }
    }
    if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
        return Ok(());
    }
    fs::set_permissions(to, PermissionsExt::from_mode(found.st_mode & 0o7777))?;
    let changed = u64::try_from(found.st_mtime).unwrap_or(0);
    let changed = SystemTime::UNIX_EPOCH + Duration::new(changed, u32::try_from(found.st_mtime_nsec).unwrap_or(0));
    File::open(to)?.set_times(FileTimes::new().set_modified(changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_copied_with_links_modes_and_times_but_without_pipes() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("jobs/a")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("jobs/a/log"), "text").unwrap();
        fs::write(from.join("LOCK"), "").unwrap();
        fs::set_permissions(from.join("jobs/a/log"), PermissionsExt::from_mode(0o640)).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        File::open(from.join("jobs/a/log")).unwrap().set_modified(changed).unwrap();
        symlink("/etc/passwd", from.join("jobs/link")).unwrap();
        let pipe = from.join("jobs/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let copied = copy_tree(&from, &to, |name| name == "LOCK").unwrap();
        assert_eq!(copied, FilesCopied { files: 1, bytes: 4, special: 1, other_owner: 0 });
        let metadata = fs::metadata(to.join("jobs/a/log")).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.modified().unwrap()), (0o640, changed));
        assert_eq!(fs::read_link(to.join("jobs/link")).unwrap(), Path::new("/etc/passwd"));
        assert!(!to.join("LOCK").exists() && !to.join("jobs/pipe").exists());
        assert_eq!(fs::read_to_string(to.join("jobs/a/log")).unwrap(), "text");
    }
}
