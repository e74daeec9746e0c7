//! The data folder and its subfolders, including their bind mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mounts visible to this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Device and inode of a file or folder.
type Identity = (u64, u64);

pub(super) struct DataFolder {
    /// Resolved path, without links.
    pub(super) path: PathBuf,
    identity: Identity,
}

/// One mount, in the terms of `proc_pid_mountinfo(5)`.
struct Mount {
    /// `major:minor` of the file system.
    device: Vec<u8>,
    /// Root of the mount within its file system.
    root: PathBuf,
    /// Mount point.
    point: PathBuf,
}

impl DataFolder {
    /// `path` must be free of links.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        Ok(Self { identity: identity(&path)?, path })
    }

    /// Identities of the data folder and of each subfolder mounted elsewhere, the possible entry points into it.
    pub(super) fn identities(&self) -> Vec<Identity> {
        // Without a mount list, still covers the data folder itself.
        let mounts = fs::read(MOUNTS).map(|list| mounts(&list)).unwrap_or_default();
        let parts = parts_of(&self.path, &mounts).filter_map(|point| identity(point).ok());
        std::iter::once(self.identity).chain(parts).collect()
    }

    /// Whether `path` lies in the data folder, through any mount.
    pub(super) fn has(&self, path: &Path) -> bool {
        let identities = self.identities();
        // Opening a path refuses links, wherever they lead.
        let is_plain = |above: &Path| fs::canonicalize(above).is_ok_and(|resolved| resolved == above);
        path.ancestors().any(|above| is_plain(above) && identity(above).is_ok_and(|found| identities.contains(&found)))
    }
}

pub(super) fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Parses `list`, the content of [`MOUNTS`].
fn mounts(list: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let mut path = || fields.next().map(<[u8]>::to_vec);
        let device = path()?;
        Some(Mount { device, root: unescaped(&path()?), point: unescaped(&path()?) })
    };
    list.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Decodes the octal escapes of blanks and backslashes in `text`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        let (byte, after) = match code {
            Some(code) if *first == b'\\' => (code, &after[3..]),
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes).into()
}

/// Mount points of `folder` (a path without links) and its subfolders.
fn parts_of<'a>(folder: &Path, mounts: &'a [Mount]) -> impl Iterator<Item = &'a Path> {
    // The last mount at a point hides earlier ones.
    let holder = mounts.iter().filter(|mount| folder.starts_with(&mount.point));
    let holder = holder.max_by_key(|mount| mount.point.components().count()).and_then(|mount| {
        let below = folder.strip_prefix(&mount.point).ok()?;
        Some((&mount.device, mount.root.join(below)))
    });
    let inner = mounts.iter().filter(|mount| mount.point.starts_with(folder));
    let places: Vec<_> = holder.into_iter().chain(inner.map(|mount| (&mount.device, mount.root.clone()))).collect();
    let is_part = move |mount: &&Mount| {
        places.iter().any(|(device, root)| mount.device == **device && mount.root.starts_with(root))
    };
    mounts.iter().filter(is_part).map(|mount| mount.point.as_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_data_folder_and_its_parts_are_found() {
        let list = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 8:2 / /srv rw,relatime shared:1 - ext4 /dev/sda2 rw\n\
            31 22 8:2 /data /mnt/whole rw - ext4 /dev/sda2 rw\n\
            32 22 8:2 /data/job-dirs/q /mnt/with\\040blank rw - ext4 /dev/sda2 rw\n\
            33 22 8:2 /data2 /mnt/other rw - ext4 /dev/sda2 rw\n\
            34 22 8:1 /data /mnt/device rw - ext4 /dev/sda1 rw\n\
            35 30 8:3 / /srv/data/packages rw - ext4 /dev/sda3 rw\n\
            36 22 8:3 /p /mnt/packages rw - ext4 /dev/sda3 rw\n";
        let mounts = mounts(list);
        let parts = |folder: &str| -> Vec<String> {
            parts_of(Path::new(folder), &mounts).map(|point| point.display().to_string()).collect()
        };
        assert_eq!(parts("/srv/data"), ["/mnt/whole", "/mnt/with blank", "/srv/data/packages", "/mnt/packages"]);
        assert_eq!(parts("/data"), ["/mnt/device"]);
        assert!(parts_of(Path::new("/srv/data"), &[]).next().is_none());
    }
}
