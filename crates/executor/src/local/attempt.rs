//! Files through which the executor and the supervisor of an attempt communicate, and the meaning of their presence.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the submitter | the attempt is submitted; never replaced |
//! | `lock` | both | locked (`flock`) while the supervisor lives; contains its process ID |
//! | `stop.json` | the client that stops it | the requested stop mode |
//! | `started.json` | the supervisor | written before a program starts: the attempt must never start again |
//! | `exit.json` | the supervisor, or a client that finds the attempt lost | the end; never replaced |
//!
//! Module `shared` documents the additional files of attempts on another machine.
//!
//! The lock belongs to an open file that the submitter passes to the supervisor as standard input. It is therefore
//! never free between submission and end, and reused process IDs do no harm. A second lock, on the folder itself, is
//! held briefly by submitters and by clients that declare an attempt lost.
//!
//! The files are in a folder of the registry, apart from those the program writes. The folder may be moved while the
//! supervisor runs. A copy is recognised by its inode: the attempt of a copy runs no program.

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

/// Version of these files.
pub(super) const FORMAT: u32 = 1;

/// Maximum file size in bytes; a guess. A submission contains the training input.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum size of the lock file in bytes; it contains a number of ten digits.
const MAX_LOCK_BYTES: u64 = 64;

/// Maximum wait for the folder lock, and the polling interval. It is held for milliseconds, unless by an unrelated
/// program.
const MAX_LOCK_TIME: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Content of `spec.json`: the input of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) format: u32,
    /// Random identity, in the environment of all processes of the attempt and of no others.
    pub(super) token: String,
    /// Folder in which the attempt was submitted.
    pub(super) folder: FolderId,
    pub(super) spec: ExecutorJobSpec,
    /// Container engine; `None` if the job has no containers.
    pub(super) engine: Option<Engine>,
    /// User of the programs; `None` for the supervisor's.
    pub(super) identity: Option<Identity>,
    /// Umask of the programs; `None` for the supervisor's.
    pub(super) umask: Option<u32>,
    /// Maximum disk space of the logs in bytes; `None` for no limit.
    pub(super) log_quota_bytes: Option<u64>,
    /// Timing of a supervisor on another machine; `None` for one on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<SharedTimes>,
}

/// Identity of a folder on this machine. It survives moves within the file system; a copy gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderId {
    device: u64,
    inode: u64,
}

impl FolderId {
    /// Whether both are the same folder, even across a remount or on another machine.
    pub(super) fn has_inode_of(self, other: Self) -> bool {
        self.inode == other.inode
    }
}

/// Content of `started.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) supervisor_pid: u32,
    /// Start time on the monotonic clock of this boot.
    pub(super) monotonic_ms: u64,
    /// Engine's name of the run, if an engine started the supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) engine_job: Option<String>,
}

/// Content of `exit.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) outcome: AttemptOutcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum AttemptOutcome {
    Ended(ExitStatus),
    Lost {
        reason: String,
    },
    /// The engine preempted the attempt in favour of other work.
    Preempted {
        reason: String,
    },
}

/// Content of `stop.json`.
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

/// Files of one attempt.
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

    /// Current identity of the folder.
    pub(super) fn folder_id(&self) -> io::Result<FolderId> {
        let metadata = fs::metadata(&self.folder)?;
        Ok(FolderId { device: metadata.dev(), inode: metadata.ino() })
    }

    pub(super) fn place(&self, name: &str) -> RootedPath {
        RootedPath::new(&self.folder, name)
    }

    /// Waits for the folder lock. Dropping the file releases it.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the lock is not free in time.
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

    /// Acquires the supervisor's lock; `None` while a supervisor is alive.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.place("lock").read_write()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the supervisor's process ID to its lock file. Submitter and supervisor write the same bytes.
    pub(super) fn write_pid(lock: &File, pid: u32) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        // Always ten digits, which replace an earlier ID completely.
        lock.write_all_at(format!("{pid:010}\n").as_bytes(), 0)
    }

    /// Process ID of the supervisor, if written. Valid only while the supervisor holds the lock.
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

    /// The submission; `None` if there is none, or if a power failure damaged the file.
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

    /// Records the end, synced to disk if `durable`.
    pub(super) fn write_end(&self, end: &End, durable: bool) -> io::Result<()> {
        self.write("exit.json", end, durable)
    }

    /// Reads a file; `None` if it is missing or does not parse. Files are created by rename, so only a power failure
    /// damages them, after which no process is left.
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
