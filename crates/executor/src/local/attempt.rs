//! The files through which executor and supervisor of one attempt communicate, and the meaning of their presence.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the submitter | the attempt is submitted; never replaced |
//! | `lock` | both | locked (`flock`) while the supervisor lives; contains its process ID |
//! | `stop.json` | the client that stops it | the requested stop mode |
//! | `started.json` | the supervisor | written before a program starts: the attempt must never start again |
//! | `exit.json` | the supervisor, or the client that finds it lost | the end; never replaced |
//!
//! Module `shared` documents the further files of an attempt that runs on another machine.
//!
//! The lock belongs to an open file that the submitter passes to the supervisor as its standard input. It is therefore
//! never free between submission and end, and a reused process ID has no effect. A second lock, on the folder itself,
//! is held briefly by a submitter and by a client that declares an attempt lost.
//!
//! The files are in a folder of the registry, apart from those that the program writes. The folder may be moved while
//! the supervisor runs. A copy of it is recognised by its inode: the attempt of a copy runs no program.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::containers::Engine;
use super::identity::Identity;
use super::shared::SharedTimes;
use crate::{ExecutorJobSpec, ExitStatus, StopMode};
use tunesmith_files::RootedPath;

/// The version of these files.
pub(super) const FORMAT: u32 = 1;

/// Maximum size of a file in bytes. A guess; a submission contains the training input.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum size of the lock in bytes; it contains a number of ten digits.
const MAX_LOCK_BYTES: u64 = 64;

/// Maximum time to wait for the lock on the folder, and the interval of attempts. It is held for milliseconds, unless
/// a program of another kind holds it.
const MAX_LOCK_TIME: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The content of `spec.json`: the input of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) format: u32,
    /// Random identity that is in the environment of every process of the attempt, and of no other.
    pub(super) token: String,
    /// The folder that the attempt was submitted in.
    pub(super) folder: FolderId,
    pub(super) spec: ExecutorJobSpec,
    /// The container engine; `None` if the job has no containers.
    pub(super) engine: Option<Engine>,
    /// The user of the programs; `None` for that of the supervisor.
    pub(super) identity: Option<Identity>,
    /// The umask of the programs; `None` for that of the supervisor.
    pub(super) umask: Option<u32>,
    /// Maximum disk space of the logs in bytes; `None` for any.
    pub(super) log_quota_bytes: Option<u64>,
    /// How a supervisor on another machine follows the files of the attempt; `None` for one on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<SharedTimes>,
}

/// The identity of a folder on this machine, which it keeps when it is moved within its file system. A copy has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderId {
    device: u64,
    inode: u64,
}

impl FolderId {
    /// Whether both are the same folder, also if its file system was mounted anew or is seen from another machine.
    pub(super) fn has_inode_of(self, other: Self) -> bool {
        self.inode == other.inode
    }
}

/// The content of `started.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) supervisor_pid: u32,
    /// The start on the monotonic clock of this boot.
    pub(super) monotonic_ms: u64,
    /// The name that the engine gave the run, if an engine started the supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) engine_job: Option<String>,
}

/// The content of `exit.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) outcome: AttemptOutcome,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum AttemptOutcome {
    Ended(ExitStatus),
    Lost {
        reason: String,
    },
    /// The engine took the place of the attempt for other work.
    Preempted {
        reason: String,
    },
}

/// The content of `stop.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StopRequest {
    Graceful,
    Immediate,
}

impl From<StopMode> for StopRequest {
    fn from(mode: StopMode) -> Self {
        match mode {
            StopMode::Graceful => Self::Graceful,
            StopMode::Immediate => Self::Immediate,
        }
    }
}

/// The files of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    folder: PathBuf,
}

impl Attempt {
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The present identity of the folder.
    pub(super) fn folder_id(&self) -> io::Result<FolderId> {
        let metadata = fs::metadata(&self.folder)?;
        Ok(FolderId { device: metadata.dev(), inode: metadata.ino() })
    }

    pub(super) fn place(&self, name: &str) -> RootedPath {
        RootedPath::new(&self.folder, name)
    }

    /// Waits for the lock on the folder. Dropping the value releases it.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if it is not free in time.
    pub(super) fn lock_folder(&self) -> io::Result<File> {
        let folder = File::from(RootedPath::from(self.folder.clone()).open_folder()?);
        let deadline = Instant::now() + MAX_LOCK_TIME;
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(folder),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LOCK_INTERVAL),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let message = format!("another process keeps {} locked", self.folder.display());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the supervisor's lock; `None` if a supervisor is alive.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.place("lock").read_write()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the supervisor's process ID to its lock file. Submitter and supervisor both write the same bytes.
    pub(super) fn write_pid(lock: &File, pid: u32) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        // Always ten digits, so that the text replaces an earlier one completely.
        lock.write_all_at(format!("{pid:010}\n").as_bytes(), 0)
    }

    /// The supervisor's process ID, if it has been written. Valid only while the supervisor holds the lock.
    pub(super) fn supervisor_pid(&self) -> Option<Pid> {
        let text = String::from_utf8(self.place("lock").read(MAX_LOCK_BYTES).ok()?).ok()?;
        Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
    }

    pub(super) fn is_submitted(&self) -> io::Result<bool> {
        self.folder.join("spec.json").try_exists()
    }

    pub(super) fn has_started(&self) -> io::Result<bool> {
        self.folder.join("started.json").try_exists()
    }

    /// The submission; `None` if there is none or a power failure damaged the file.
    pub(super) fn submission(&self) -> io::Result<Option<Submission>> {
        self.read("spec.json")
    }

    pub(super) fn started(&self) -> io::Result<Option<Started>> {
        self.read("started.json")
    }

    pub(super) fn end(&self) -> io::Result<Option<End>> {
        self.read("exit.json")
    }

    pub(super) fn stop_request(&self) -> io::Result<Option<StopRequest>> {
        self.read("stop.json")
    }

    pub(super) fn write_submission(&self, submission: &Submission) -> io::Result<()> {
        self.write("spec.json", submission, false)
    }

    pub(super) fn write_started(&self, started: &Started) -> io::Result<()> {
        self.write("started.json", started, false)
    }

    pub(super) fn write_stop_request(&self, request: StopRequest) -> io::Result<()> {
        self.write("stop.json", &request, false)
    }

    /// Records the end; if `durable`, it is synced to disk.
    pub(super) fn write_end(&self, end: &End, durable: bool) -> io::Result<()> {
        self.write("exit.json", end, durable)
    }

    /// Returns `None` if the file is absent or does not parse. Files are created by rename, so only a power failure
    /// damages them, and after one no process is left.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let text = match self.place(name).read(MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match serde_json::from_slice(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                tracing::warn!(path = %self.folder.join(name).display(), %error, "ignoring a damaged file");
                Ok(None)
            }
        }
    }

    pub(super) fn write<T: Serialize>(&self, name: &str, value: &T, durable: bool) -> io::Result<()> {
        Ok(self.place(name).replace(&serde_json::to_vec(value)?, durable)?)
    }
}
