//! One process per data folder, and its name for the others.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::DataDirError;
use crate::clock::{Clock, SystemClock};

const FILE: &str = "LOCK";

/// The process that has a data folder open, as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID, if it could be read.
    pub pid: Option<u32>,
    /// Its command line; empty if it could not be read.
    pub command: String,
    /// Since when it has the folder, if that could be read.
    pub since: Option<Timestamp>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.since) {
            (Some(pid), Some(since)) => write!(f, "process {pid} ({}) since {since:.0}", self.command),
            _ => f.write_str("another process"),
        }
    }
}

/// The lock, held until it is dropped or the process ends: the kernel lets go of it even after `kill -9`.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it locked for as long as a child that is just being started has a copy.
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(error = %error, "the lock of the data folder ends only with this process");
        }
    }
}

impl Lock {
    /// Takes the lock of `folder` and writes into it who has it.
    pub(super) fn take(folder: &Path, who: &str) -> Result<Self, DataDirError> {
        let path = folder.join(FILE);
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(DataDirError::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = read_holder(&file).map_err(DataDirError::io("read", &path))?;
                return Err(DataDirError::InUse { path: folder.to_owned(), holder });
            }
            Err(error) => return Err(DataDirError::io("lock", &path)(error.into())),
        }
        let record = HolderRecord { pid: std::process::id(), command: who.to_owned(), since: SystemClock.now() };
        let mut text = serde_json::to_vec(&record).map_err(|error| DataDirError::io("write", &path)(error.into()))?;
        text.push(b'\n');
        file.set_len(0).and_then(|()| file.write_all(&text)).map_err(DataDirError::io("write", &path))?;
        Ok(Self { file })
    }
}

#[derive(Serialize, Deserialize)]
struct HolderRecord {
    pid: u32,
    command: String,
    since: Timestamp,
}

/// Reads who has the lock. Whoever has just taken it may not have written its name yet.
fn read_holder(file: &File) -> io::Result<Holder> {
    let text = io::read_to_string(file)?;
    Ok(match serde_json::from_str::<HolderRecord>(&text) {
        Ok(record) => Holder { pid: Some(record.pid), command: record.command, since: Some(record.since) },
        Err(_) => Holder { pid: None, command: String::new(), since: None },
    })
}
