//! Exclusive lock of a data folder, which names its holder.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::DataDirError;

const FILE: &str = "LOCK";

/// Number and length of pauses while waiting for a dead process's lock: two seconds in total.
const MAX_PAUSES: usize = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The process that has a data folder open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `None` if unknown.
    pub pid: Option<u32>,
    /// Command line; empty if unknown.
    pub command: String,
    /// Time of opening the folder; `None` if unknown.
    pub since: Option<Timestamp>,
}

impl Holder {
    /// Options of a user whose folder another process holds.
    pub(super) fn ways_out(&self) -> String {
        match self.command.strip_prefix("tunesmith serve --listen ") {
            Some(address) => {
                // Port 0 requests a free port.
                let server = if address.ends_with(":0") {
                    "with the address that it printed".to_owned()
                } else {
                    format!("http://{address}")
                };
                format!(
                    "use --server {server} in place of --data-dir (`tunesmith jobs submit training` in place of \
                     `tunesmith run`), or give another --data-dir"
                )
            }
            None => {
                "give another folder, such as --data-dir .tunesmith-2, or wait until it has ended; to run several jobs \
                     on one folder at the same time, start `tunesmith serve` on it and submit them with `tunesmith jobs \
                     submit training --server`"
                    .to_owned()
            }
        }
    }

    /// Options of a user who wants to read a folder whose store only the holder can open.
    pub(super) fn ways_to_read(&self) -> String {
        if self.command.starts_with("tunesmith serve") {
            return self.ways_out();
        }
        "wait until it has ended; start a job with `tunesmith run --console` to see it while it runs, or in a folder with \
         the store sqlite, which `tunesmith console` can read meanwhile"
            .to_owned()
    }

    /// The process holding a lock on `path`; a fallback if `LOCK` was removed.
    pub(super) fn of_file(path: &Path) -> Self {
        let pid = locking_process(path);
        let read = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).ok();
        let command =
            pid.and_then(read).map(|text| String::from_utf8_lossy(&text).replace('\0', " ").trim().to_owned());
        Self { pid, command: command.unwrap_or_default(), since: None }
    }

    /// Whether the process has exited; false if unknown.
    fn has_ended(&self) -> bool {
        let pid = self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.since) {
            (Some(pid), Some(since)) => write!(f, "process {pid} ({}) since {since:.0}", self.command),
            (Some(pid), None) => write!(f, "process {pid} ({})", self.command),
            (None, _) => f.write_str("another process"),
        }
    }
}

/// A lock, released on drop or process exit. The kernel releases it even after `kill -9`.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child being spawned has a copy of the descriptor.
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(error = %error, "the lock of the data folder is only released when this process ends");
        }
    }
}

impl Lock {
    /// Locks `folder` and records the holder.
    pub(super) fn take(folder: &Path, who: &str) -> Result<Self, DataDirError> {
        Self::take_pausing(folder, who, || std::thread::sleep(PAUSE))
    }

    /// Like [`Lock::take`], calling `pause` while a dead process's lock persists: a child that was being spawned when
    /// its parent was killed holds a copy until it execs.
    fn take_pausing(folder: &Path, who: &str, mut pause: impl FnMut()) -> Result<Self, DataDirError> {
        let path = folder.join(FILE);
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(DataDirError::io("open", &path))?;
        let mut pauses = 0;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(DataDirError::io("lock", &path)(error.into())),
            }
            let holder = read_holder(&mut file).map_err(DataDirError::io("read", &path))?;
            if pauses == MAX_PAUSES || !holder.has_ended() {
                return Err(DataDirError::InUse { path: folder.to_owned(), holder });
            }
            pauses += 1;
            pause();
        }
        let record = HolderRecord { pid: std::process::id(), command: who.to_owned(), since: Timestamp::now() };
        let mut text = serde_json::to_vec(&record).map_err(|error| DataDirError::io("write", &path)(error.into()))?;
        text.push(b'\n');
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        written.map_err(DataDirError::io("write", &path))?;
        Ok(Self { file })
    }
}

#[derive(Serialize, Deserialize)]
struct HolderRecord {
    pid: u32,
    command: String,
    since: Timestamp,
}

/// Reads the holder. Unknown until the holder has written the file.
fn read_holder(file: &mut File) -> io::Result<Holder> {
    file.rewind()?;
    let text = io::read_to_string(file)?;
    Ok(match serde_json::from_str::<HolderRecord>(&text) {
        Ok(record) => Holder { pid: Some(record.pid), command: record.command, since: Some(record.since) },
        Err(_) => Holder { pid: None, command: String::new(), since: None },
    })
}

/// The process holding an `flock` on `path`, from the kernel's lock list (`proc_locks(5)`).
fn locking_process(path: &Path) -> Option<u32> {
    let inode = std::fs::metadata(path).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // Such as `1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF`.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = fields.as_slice() else { return None };
        let is_it = file.rsplit(':').next() == Some(inode.as_str());
        if is_it { pid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folder whose lock names a dead process, with the lock and process ID.
    fn locked_by_an_ended_process() -> (tempfile::TempDir, Lock, u32) {
        let mut process = std::process::Command::new("true").spawn().unwrap();
        process.wait().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), "before").unwrap();
        let record = HolderRecord { pid: process.id(), command: "before".to_owned(), since: Timestamp::now() };
        std::fs::write(folder.path().join(FILE), serde_json::to_vec(&record).unwrap()).unwrap();
        (folder, lock, process.id())
    }

    #[test]
    fn lock_of_an_ended_process_is_awaited() {
        let (folder, lock, _) = locked_by_an_ended_process();
        let mut left = Some(lock);
        let taken = Lock::take_pausing(folder.path(), "after", || drop(left.take())).unwrap();
        assert!(left.is_none());
        let holder = read_holder(&mut File::open(folder.path().join(FILE)).unwrap()).unwrap();
        assert_eq!((holder.pid, holder.command.as_str()), (Some(std::process::id()), "after"));
        drop(taken);
    }

    #[test]
    fn lock_of_an_ended_process_is_an_error_after_all_pauses() {
        let (folder, _lock, pid) = locked_by_an_ended_process();
        let mut pauses = 0;
        let error = Lock::take_pausing(folder.path(), "after", || pauses += 1).unwrap_err();
        assert_eq!(pauses, MAX_PAUSES);
        assert!(matches!(error, DataDirError::InUse { holder, .. } if holder.pid == Some(pid)));
    }

    #[test]
    fn lock_of_a_running_process_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = Lock::take(folder.path(), "first").unwrap();
        let error = Lock::take_pausing(folder.path(), "second", || panic!("waited")).unwrap_err();
        assert!(matches!(error, DataDirError::InUse { .. }));
    }
}
