//! What the server knows of the attempts that agents run: one folder for each attempt.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | the executor | the attempt is open; the input of the agent |
//! | `contact` | the service | the agent has reported at least once |
//! | `stop.json` | the executor | the requested stop mode, for the answer to the agent's next report |
//! | `preemption.json` | the service | the agent was notified that its place is taken |
//! | `summary.json` | the service | the metrics that the agent has seen |
//! | `end.json` | the service, or the executor that finds the place gone | the end; never replaced |

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::log_name;
use crate::logs::LogStream;
use crate::reports::SentReports;
use crate::{ExecutorJobId, ExecutorJobSpec, ExitStatus, StopMode};
use tunesmith_domain::{JobId, Measurement};
use tunesmith_files::Place;

/// The version of [`AgentSpec`].
pub const SPEC_FORMAT: u32 = 1;

/// Maximum size of a file in bytes; a specification contains the training input.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The input of an agent: the content of its specification file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// [`SPEC_FORMAT`].
    pub format: u32,
    /// The run.
    pub spec: ExecutorJobSpec,
}

/// What an agent reports in one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentReport {
    /// Parts of logs.
    pub logs: Vec<LogPiece>,
    /// Number of the first of `measurements` among those of the attempt, from 0.
    pub first_measurement: u64,
    /// The measurements that follow.
    pub measurements: Vec<Measurement>,
    /// The names of all metrics that were seen, if they are new.
    pub seen_tags: BTreeSet<String>,
    /// What could not be read, if it is new.
    pub problems: Vec<String>,
    /// The notice that the place is taken for other work.
    pub preempted: Option<String>,
    /// The end, after everything else was delivered.
    pub end: Option<AgentEnd>,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Where the bytes stand.
    pub position: LogPosition,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A place in a log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The replica, such as `master-0`.
    pub task: String,
    /// The output stream.
    pub stream: LogStream,
    /// Offset in bytes.
    pub offset: u64,
}

/// How an attempt ended, as its agent reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEnd {
    /// Its program ended.
    Ended(ExitStatus),
    /// Its place was taken for other work.
    Preempted {
        /// The notice.
        reason: String,
    },
    /// It was lost.
    Lost {
        /// Description of the failure.
        reason: String,
    },
}

/// What the server asks of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Go on.
    Continue,
    /// End the program, with the grace period.
    Stop,
    /// Kill the program.
    Kill,
}

/// What of a report was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The size of each log in the report, which is where its next part starts.
    pub logs: Vec<LogPosition>,
    /// What the server asks.
    pub command: Command,
}

/// The attempts of agents.
#[derive(Debug)]
pub struct Inbox {
    folder: PathBuf,
    /// Reports of one attempt are received one after the other.
    receiving: Mutex<()>,
    /// Changes when an end was recorded.
    changes: watch::Sender<()>,
}

impl Inbox {
    /// An inbox in `folder`, which is created when needed. Does no IO.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, receiving: Mutex::default(), changes: watch::Sender::new(()) }
    }

    /// Returns a receiver that is notified of ends.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Opens the attempt of `spec`, unless its agent has reported, and returns the file of its specification.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn open(&self, spec: &ExecutorJobSpec) -> io::Result<PathBuf> {
        // Two submissions of an attempt write the same file.
        let _one = self.lock();
        let folder = self.attempt(&spec.id);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // Before that, an attempt may have been opened by a server with another address.
        if !self.has_contact(&spec.id)? {
            self.write(&spec.id, "spec.json", &AgentSpec { format: SPEC_FORMAT, spec: spec.clone() }, false)?;
        }
        Ok(folder.join("spec.json"))
    }

    /// Whether the attempt `id` was opened.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn is_open(&self, id: &ExecutorJobId) -> io::Result<bool> {
        self.attempt(id).join("spec.json").try_exists()
    }

    /// Whether the agent of `id` has reported.
    ///
    /// # Errors
    /// If that cannot be determined.
    pub fn has_contact(&self, id: &ExecutorJobId) -> io::Result<bool> {
        self.attempt(id).join("contact").try_exists()
    }

    /// Returns the end of `id`, if it was recorded.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn end(&self, id: &ExecutorJobId) -> io::Result<Option<AgentEnd>> {
        self.read(id, "end.json")
    }

    /// Records the end of `id`, and returns it; an earlier end stays.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn close(&self, id: &ExecutorJobId, end: AgentEnd) -> io::Result<AgentEnd> {
        let _one = self.lock();
        self.close_locked(id, end)
    }

    /// Returns the stop request for `id`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stop_request(&self, id: &ExecutorJobId) -> io::Result<Option<StopMode>> {
        let request: Option<StopForm> = self.read(id, "stop.json")?;
        Ok(request.map(|request| match request {
            StopForm::Graceful => StopMode::Graceful,
            StopForm::Immediate => StopMode::Immediate,
        }))
    }

    /// Records a stop request for `id`, and returns true; false for an attempt that is not open or has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn request_stop(&self, id: &ExecutorJobId, how: StopMode) -> io::Result<bool> {
        let _one = self.lock();
        if !self.is_open(id)? || self.end(id)?.is_some() {
            return Ok(false);
        }
        let form = match (how, self.stop_request(id)?) {
            (StopMode::Immediate, _) | (_, Some(StopMode::Immediate)) => StopForm::Immediate,
            (StopMode::Graceful, _) => StopForm::Graceful,
        };
        self.write(id, "stop.json", &form, false)?;
        Ok(true)
    }

    /// Returns the notice of a preemption of `id`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn preemption(&self, id: &ExecutorJobId) -> io::Result<Option<String>> {
        self.read(id, "preemption.json")
    }

    /// Returns what the agent of `id` has reported about its reads.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summary(&self, id: &ExecutorJobId) -> io::Result<SentReports> {
        let Some(form): Option<SummaryForm> = self.read(id, "summary.json")? else { return Ok(SentReports::default()) };
        Ok(SentReports { seen_tags: form.seen_tags, problems: form.problems })
    }

    /// Receives everything of a report of `id` but its measurements and its end. `job` is the folder of the job's files.
    ///
    /// A part of a log that was received before has no effect, and one that leaves a gap is not written: the answer states
    /// where the log continues. Blocks.
    ///
    /// # Errors
    /// If a file cannot be written; the report may be repeated.
    pub fn receive(&self, id: &ExecutorJobId, job: &Path, report: &AgentReport) -> io::Result<Received> {
        let _one = self.lock();
        if !self.has_contact(id)? {
            fs::write(self.attempt(id).join("contact"), "")?;
        }
        if let Some(notice) = &report.preempted
            && self.preemption(id)?.is_none()
        {
            self.write(id, "preemption.json", notice, false)?;
        }
        if !report.seen_tags.is_empty() || !report.problems.is_empty() {
            let summary = self.summary(id)?;
            let mut form = SummaryForm { seen_tags: summary.seen_tags, problems: summary.problems };
            form.seen_tags.extend(report.seen_tags.iter().cloned());
            for problem in &report.problems {
                if !form.problems.contains(problem) {
                    form.problems.push(problem.clone());
                }
            }
            self.write(id, "summary.json", &form, false)?;
        }
        let mut logs = Vec::with_capacity(report.logs.len());
        for piece in &report.logs {
            let offset = append(&log_name(id, &piece.position).place(job), piece)?;
            logs.push(LogPosition { offset, ..piece.position.clone() });
        }
        let command = match self.stop_request(id)? {
            None => Command::Continue,
            Some(StopMode::Graceful) => Command::Stop,
            Some(StopMode::Immediate) => Command::Kill,
        };
        Ok(Received { logs, command })
    }

    /// Removes everything of an ended attempt but its end, and returns true; false for one that has not ended.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn tidy(&self, id: &ExecutorJobId) -> io::Result<bool> {
        let _one = self.lock();
        if self.end(id)?.is_none() {
            return Ok(false);
        }
        for name in ["spec.json", "contact", "stop.json", "preemption.json", "summary.json"] {
            match fs::remove_file(self.attempt(id).join(name)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Removes the attempts of `job`.
    ///
    /// # Errors
    /// If a folder cannot be removed.
    pub fn forget(&self, job: &JobId) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| ExecutorJobId::is_of(name, job)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn close_locked(&self, id: &ExecutorJobId, end: AgentEnd) -> io::Result<AgentEnd> {
        if let Some(earlier) = self.end(id)? {
            return Ok(earlier);
        }
        self.write(id, "end.json", &end, true)?;
        self.changes.send_replace(());
        Ok(end)
    }

    fn attempt(&self, id: &ExecutorJobId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T: DeserializeOwned>(&self, id: &ExecutorJobId, name: &str) -> io::Result<Option<T>> {
        match Place::new(self.attempt(id), name).read(MAX_FILE_BYTES) {
            // Files are created by rename, so only a power failure damages one.
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write<T: Serialize>(&self, id: &ExecutorJobId, name: &str, value: &T, durable: bool) -> io::Result<()> {
        Ok(Place::new(self.attempt(id), name).replace(&serde_json::to_vec(value)?, durable)?)
    }
}

/// Writes the bytes of `piece` that the log lacks, and returns the size of the log.
fn append(log: &Place, piece: &LogPiece) -> io::Result<u64> {
    let mut file = log.append()?;
    let size = file.metadata()?.len();
    let known = usize::try_from(size.saturating_sub(piece.position.offset)).unwrap_or(usize::MAX);
    let Some(new) = piece.bytes.get(known..).filter(|_| piece.position.offset <= size) else { return Ok(size) };
    file.write_all(new)?;
    Ok(size + new.len() as u64)
}

#[derive(Serialize, Deserialize)]
enum StopForm {
    Graceful,
    Immediate,
}

#[derive(Serialize, Deserialize)]
struct SummaryForm {
    seen_tags: BTreeSet<String>,
    problems: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_domain::TrialId;

    fn id() -> ExecutorJobId {
        ExecutorJobId { job: "j".parse().unwrap(), trial: Some(TrialId(3)), attempt: 1 }
    }

    fn piece(offset: u64, bytes: &str) -> AgentReport {
        let position = LogPosition { task: "master-0".to_owned(), stream: LogStream::Stdout, offset };
        AgentReport { logs: vec![LogPiece { position, bytes: bytes.into() }], ..AgentReport::default() }
    }

    #[test]
    fn repeated_part_of_a_log_has_no_effect_and_a_gap_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (inbox, job) = (Inbox::new(folder.path().join("agents")), folder.path().join("job"));
        let attempt = job.join("trials/3/attempt-1");
        fs::create_dir_all(&attempt).unwrap();
        fs::create_dir_all(inbox.attempt(&id())).unwrap();
        let next = |report: &AgentReport| inbox.receive(&id(), &job, report).unwrap().logs[0].offset;
        assert_eq!(next(&piece(0, "abc")), 3);
        assert_eq!(next(&piece(0, "abc")), 3);
        assert_eq!(next(&piece(1, "bcde")), 5);
        assert_eq!(next(&piece(7, "x")), 5, "the gap is named");
        assert_eq!(next(&piece(2, "c")), 5);
        assert_eq!(next(&piece(5, "")), 5);
        assert_eq!(fs::read_to_string(attempt.join("stdout.log")).unwrap(), "abcde");
    }

    #[test]
    fn first_end_stays_and_immediate_stop_is_not_softened() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::new(folder.path().to_owned());
        assert!(!inbox.request_stop(&id(), StopMode::Graceful).unwrap(), "it is not open");
        fs::create_dir_all(inbox.attempt(&id())).unwrap();
        fs::write(inbox.attempt(&id()).join("spec.json"), "{}").unwrap();
        assert!(inbox.request_stop(&id(), StopMode::Immediate).unwrap());
        assert!(inbox.request_stop(&id(), StopMode::Graceful).unwrap());
        assert_eq!(inbox.receive(&id(), folder.path(), &AgentReport::default()).unwrap().command, Command::Kill);
        let lost = AgentEnd::Lost { reason: "gone".to_owned() };
        assert_eq!(inbox.close(&id(), lost.clone()).unwrap(), lost);
        let late = AgentEnd::Preempted { reason: "late".to_owned() };
        assert_eq!(inbox.close(&id(), late).unwrap(), lost.clone());
        assert!(inbox.tidy(&id()).unwrap());
        assert!(!inbox.is_open(&id()).unwrap());
        assert_eq!(inbox.end(&id()).unwrap(), Some(lost));
        inbox.forget(&id().job).unwrap();
        assert_eq!(inbox.end(&id()).unwrap(), None);
    }
}
