//! A folder of results: `runs.jsonl` with a line for each run, `invocations.jsonl` with a line for each command that
//! added runs, `logs/` with the standard error of optimizers.
//!
//! A line is written whole and synced when its run has ended, so an interrupted comparison continues after its last
//! whole run. The last line of a key counts.
//!
//! Each file of lines may also be stored compressed, as `runs.jsonl.zst` and `invocations.jsonl.zst`. A compressed file
//! is only read, before the plain one; new lines are appended to the plain file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tunesmith_benchmark::record::{RunKey, RunRecord};

use super::compressed::decompress;

const RUNS: &str = "runs.jsonl";
const INVOCATIONS: &str = "invocations.jsonl";
const LOGS: &str = "logs";
/// The suffix of a compressed file.
const COMPRESSED: &str = ".zst";

/// A folder of results that is open for more.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Locked while the folder is open.
    runs: File,
    known: BTreeMap<RunKey, RunRecord>,
}

/// One command that added results, and what it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// When it began, RFC 3339.
    pub started: String,
    /// The words of the command.
    pub command: Vec<String>,
    /// The machine: operating system, processor, cores, memory.
    pub machine: BTreeMap<String, String>,
}

/// Why a folder of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or folder cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A compressed file cannot be decompressed.
    #[error("cannot decompress {}", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process writes there.
    #[error("another benchmark is running in {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A line is not a record.
    #[error("{}, line {line} is not the record of a run", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// There are no results.
    #[error("there are no results in {}: it has no {RUNS} and no {RUNS}{COMPRESSED}", path.display())]
    NoResults {
        /// The folder.
        path: PathBuf,
    },
}

impl ResultsFolder {
    /// Opens `path` for more results; creates it if it does not exist. Cuts off an incomplete last line.
    ///
    /// # Errors
    /// [`FolderError`]; [`FolderError::Busy`] while another process has it open.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let logs = path.join(LOGS);
        std::fs::create_dir_all(&logs).map_err(|source| FolderError::Io { path: logs.clone(), source })?;
        let file = path.join(RUNS);
        let io = |source| FolderError::Io { path: file.clone(), source };
        let runs = File::options().create(true).append(true).read(true).open(&file).map_err(io)?;
        runs.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => FolderError::Busy { path: path.to_owned() },
            std::fs::TryLockError::Error(source) => io(source),
        })?;
        let text = std::fs::read(&file).map_err(io)?;
        let whole = whole_lines(&text).len();
        if whole < text.len() {
            runs.set_len(whole as u64).map_err(io)?;
        }
        let mut known = BTreeMap::new();
        for (file, text) in stored(path, RUNS)? {
            known.extend(parse(&file, &text)?);
        }
        Ok(Self { path: path.to_owned(), runs, known })
    }

    /// The record of `key`, if that run has ended.
    pub fn find(&self, key: &RunKey) -> Option<&RunRecord> {
        self.known.get(key)
    }

    /// All records, by key.
    pub fn records(&self) -> impl Iterator<Item = &RunRecord> {
        self.known.values()
    }

    /// Where optimizers' standard error goes.
    pub fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }

    /// Adds a record, durably.
    ///
    /// # Errors
    /// [`FolderError::Io`]; the record may be there or not.
    pub fn add(&mut self, record: RunRecord) -> Result<(), FolderError> {
        write_line(&mut self.runs, &record).map_err(|source| FolderError::Io { path: self.path.join(RUNS), source })?;
        self.known.insert(record.key.clone(), record);
        Ok(())
    }

    /// Notes a command that added results.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn note(&self, invocation: &Invocation) -> Result<(), FolderError> {
        let path = self.path.join(INVOCATIONS);
        let mut file = File::options().create(true).append(true).open(&path);
        let written = file.as_mut().map_err(|error| std::io::Error::from(error.kind()));
        written.and_then(|file| write_line(file, invocation)).map_err(|source| FolderError::Io { path, source })
    }
}

/// Reads the records of some folders of results, merged: of several records of one run the last counts. An incomplete
/// last line, of an interrupted write or of a write in progress, is ignored.
///
/// # Errors
/// [`FolderError`]; [`FolderError::NoResults`] if a folder holds none.
pub fn read_results(folders: &[PathBuf]) -> Result<(Vec<RunRecord>, Vec<Invocation>), FolderError> {
    let mut records = BTreeMap::new();
    let mut invocations = Vec::new();
    for folder in folders {
        let runs = stored(folder, RUNS)?;
        if runs.is_empty() {
            return Err(FolderError::NoResults { path: folder.clone() });
        }
        for (file, text) in runs {
            records.extend(parse(&file, &text)?);
        }
        // A folder without invocations is valid.
        for (file, text) in stored(folder, INVOCATIONS)? {
            for (line, bytes) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
                let malformed = |source| FolderError::Malformed { path: file.clone(), line: line + 1, source };
                invocations.push(serde_json::from_slice(bytes).map_err(malformed)?);
            }
        }
    }
    Ok((records.into_values().collect(), invocations))
}

/// Returns the whole lines of the file `name` in `folder`, first of its compressed form, then of its plain form, each
/// with its path. A form that does not exist is left out.
fn stored(folder: &Path, name: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, FolderError> {
    let mut forms = Vec::new();
    for (suffix, compressed) in [(COMPRESSED, true), ("", false)] {
        let path = folder.join(format!("{name}{suffix}"));
        let mut text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(FolderError::Io { path, source }),
        };
        if compressed {
            text = decompress(&text).map_err(|source| FolderError::Compressed { path: path.clone(), source })?;
        }
        text.truncate(whole_lines(&text).len());
        forms.push((path, text));
    }
    Ok(forms)
}

/// Returns `text` up to its last line end.
pub(super) fn whole_lines(text: &[u8]) -> &[u8] {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &text[..whole]
}

fn parse(file: &Path, text: &[u8]) -> Result<BTreeMap<RunKey, RunRecord>, FolderError> {
    let mut records = BTreeMap::new();
    for (line, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
        if bytes.is_empty() {
            continue;
        }
        let record: RunRecord = serde_json::from_slice(bytes).map_err(|source| FolderError::Malformed {
            path: file.to_owned(),
            line: line + 1,
            source,
        })?;
        let record = record.restored();
        records.insert(record.key.clone(), record);
    }
    Ok(records)
}

fn write_line(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}
