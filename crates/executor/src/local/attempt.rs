//! The folder of one attempt: which files lie in it, and what their presence means.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the submitter | submitted; never replaced |
//! | `lock` | both | locked (`flock`) for as long as the supervisor lives; holds its process ID |
//! | `stop.json` | whoever stops | how it was asked to stop |
//! | `started.json` | the supervisor | a program was about to start: it must never be started again |
//! | `exit.json` | the supervisor, or whoever finds it lost | the end; never replaced |
//!
//! The lock belongs to an open file that the submitter hands to the supervisor as its standard input, so there is no
//! moment between submission and end at which it is free; a process ID that was given out again cannot deceive.
//! A second lock, on the folder itself, is held for moments only: by a submitter and by who declares an attempt lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::containers::Engine;
use crate::{ExecutorJobSpec, ExitStatus, StopMode};

/// The version of these files.
pub(super) const FORMAT: u32 = 1;

/// What `spec.json` holds: all that a supervisor must know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) format: u32,
    /// Stands in the environment of every process of the attempt, and nowhere else.
    pub(super) token: String,
    pub(super) spec: ExecutorJobSpec,
    /// What runs containers; `None` if the job has none.
    pub(super) engine: Option<Engine>,
}

/// What `started.json` holds, for people to read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) supervisor_pid: u32,
}

/// What `exit.json` holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) format: u32,
    pub(super) token: String,
    pub(super) outcome: Outcome,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Ended(ExitStatus),
    Lost { reason: String },
}

/// What `stop.json` holds.
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

/// The folder of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    directory: PathBuf,
}

impl Attempt {
    pub(super) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits for the lock on the folder. It is free again when the value is dropped.
    pub(super) fn enter(&self) -> io::Result<File> {
        let folder = File::open(&self.directory)?;
        flock(&folder, FlockOperation::LockExclusive)?;
        Ok(folder)
    }

    /// Takes the supervisor's lock; `None` if a supervisor lives.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.directory.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the supervisor's process ID into its lock. Submitter and supervisor both do so, with the same bytes.
    pub(super) fn write_pid(lock: &File, pid: u32) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        // Ten digits whatever the number, so that no rest of a former one is left and no length is cut.
        lock.write_all_at(format!("{pid:010}\n").as_bytes(), 0)
    }

    /// The supervisor's process ID, once it is known. Only good while the lock is held.
    pub(super) fn supervisor_pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.directory.join("lock")).ok()?;
        Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
    }

    pub(super) fn is_submitted(&self) -> io::Result<bool> {
        self.directory.join("spec.json").try_exists()
    }

    pub(super) fn has_started(&self) -> io::Result<bool> {
        self.directory.join("started.json").try_exists()
    }

    /// `None` if it was never submitted, or if a power cut tore the file.
    pub(super) fn submission(&self) -> io::Result<Option<Submission>> {
        self.read("spec.json")
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

    /// Records the end; if `durable`, so that it outlives a power cut.
    pub(super) fn write_end(&self, end: &End, durable: bool) -> io::Result<()> {
        self.write("exit.json", end, durable)
    }

    /// A file that is absent or does not parse is `None`: files appear by rename, so only a power cut tears them, and
    /// after one no process is left either.
    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let mut text = Vec::new();
        match File::open(self.directory.join(name)) {
            Ok(mut file) => file.read_to_end(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match serde_json::from_slice(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                tracing::warn!(path = %self.directory.join(name).display(), %error, "ignoring a damaged file");
                Ok(None)
            }
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T, durable: bool) -> io::Result<()> {
        // Two processes may stop one attempt at once: each writes a file of its own before the rename.
        let temporary = self.directory.join(format!("{name}.{}.tmp", std::process::id()));
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, self.directory.join(name))?;
        if durable {
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }
}
