//! Results folder: `runs.jsonl` with a line per run, `invocations.jsonl` with a line per command that added runs, and
//! `logs/` with the standard error of optimizers.
//!
//! Each line is written whole and synced when its run ends, so an interrupted comparison resumes after its last
//! complete run. Of several lines with the same key, the last counts.
//!
//! Both files may also be stored compressed, as `runs.jsonl.zst` and `invocations.jsonl.zst`. The compressed file is
//! read-only and read first; new lines are appended to the plain file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tunesmith_benchmark::record::{RunKey, RunRecord};

use super::compressed::decompress;

const RUNS: &str = "runs.jsonl";
const INVOCATIONS: &str = "invocations.jsonl";
const LOGS: &str = "logs";
const COMPRESSED: &str = ".zst";

/// Results folder opened for writing.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Locked while the folder is open.
    runs: File,
    known: BTreeMap<RunKey, RunRecord>,
}

/// Command that added results, and its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// Start time, RFC 3339.
    pub started: String,
    pub command: Vec<String>,
    /// Operating system, processor, cores, memory.
    pub machine: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot use {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot decompress {}", path.display())]
    Compressed {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Another process writes to the folder.
    #[error("another benchmark is running in {}", path.display())]
    Busy { path: PathBuf },
    #[error("{}, line {line} is not the record of a run", path.display())]
    Malformed {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("there are no results in {}: it has no {RUNS} and no {RUNS}{COMPRESSED}", path.display())]
    NoResults { path: PathBuf },
}

impl ResultsFolder {
    /// Opens or creates the folder `path` and truncates an incomplete last line.
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

    /// Record of `key`, if that run has ended.
    pub fn find(&self, key: &RunKey) -> Option<&RunRecord> {
        self.known.get(key)
    }

    /// All records, ordered by key.
    pub fn records(&self) -> impl Iterator<Item = &RunRecord> {
        self.known.values()
    }

    /// Folder for the standard error of optimizers.
    pub fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }

    /// Appends a record and syncs it.
    ///
    /// # Errors
    /// [`FolderError::Io`]; the record may or may not have been written.
    pub fn add(&mut self, record: RunRecord) -> Result<(), FolderError> {
        write_line(&mut self.runs, &record).map_err(|source| FolderError::Io { path: self.path.join(RUNS), source })?;
        self.known.insert(record.key.clone(), record);
        Ok(())
    }

    /// Records a command that added results.
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

/// Reads and merges the records of several folders; of several records of one run, the last counts. Ignores an
/// incomplete last line, left by an interrupted write or one in progress.
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
            invocations.extend(parse_lines(&file, &text)?);
        }
    }
    Ok((records.into_values().collect(), invocations))
}

/// Complete lines of the file `name`, of its compressed and then its plain form, each with its path; missing forms are
/// left out.
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

/// `text` up to its last line end.
pub(super) fn whole_lines(text: &[u8]) -> &[u8] {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &text[..whole]
}

fn parse(file: &Path, text: &[u8]) -> Result<impl Iterator<Item = (RunKey, RunRecord)>, FolderError> {
    let records = parse_lines::<RunRecord>(file, text)?.into_iter().map(RunRecord::restored);
    Ok(records.map(|record| (record.key.clone(), record)))
}

/// Parses each non-empty line of `text`.
pub(super) fn parse_lines<T: DeserializeOwned>(file: &Path, text: &[u8]) -> Result<Vec<T>, FolderError> {
    let lines = text.split(|byte| *byte == b'\n').enumerate().filter(|(_, bytes)| !bytes.is_empty());
    let parsed = lines.map(|(line, bytes)| {
        let malformed = |source| FolderError::Malformed { path: file.to_owned(), line: line + 1, source };
        serde_json::from_slice(bytes).map_err(malformed)
    });
    parsed.collect()
}

fn write_line(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}
