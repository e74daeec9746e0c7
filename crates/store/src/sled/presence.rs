//! Checks that sled's open log is still the file in its folder, and was not truncated.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::StoreFault;

#[derive(Debug)]
pub(super) struct Presence {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Presence {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }

    /// Checks that the path leads to the open file and that the file is not empty. Also called before each change,
    /// since sled writes past the end of a truncated file.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        match self.path.metadata() {
            Ok(now) if (now.dev(), now.ino()) != (self.device, self.inode) => Err(fault("was replaced")),
            Ok(now) if now.len() == 0 => Err(fault("was emptied")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(fault("was removed")),
            Err(error) => Err(fault(&format!("cannot be examined ({error})"))),
        }
    }
}

fn fault(what: &str) -> StoreFault {
    let advice = "put the folder back, or restore a backup, and restart";
    StoreFault::NotTheSame { detail: format!("the log of store.sled {what} while the store was open; {advice}") }
}
