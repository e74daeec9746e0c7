//! The check that the open log of sled is still the one in its folder, and was not emptied.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::StoreFault;

/// The log of an open store.
#[derive(Debug)]
pub(super) struct Presence {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Presence {
    /// The log at `path`, which sled has open.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }

    /// Checks that the path leads to the open file, and that the file is not empty. Sled writes behind the end of an
    /// emptied file, so this is called before each change, too.
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
