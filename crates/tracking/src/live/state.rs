//! Progress of live exports, kept across restarts and shown to users.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_domain::JobId;
use tunesmith_files::RootedPath;
use tunesmith_store::{Documents, StoreError};

/// Kind of the documents.
const KIND: &str = "tracking";
/// Maximum size of a file. A state is small: it has no list of trials.
const MAX_BYTES: u64 = 64 << 10;

/// State of the export of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingState {
    /// Version of the form: 1.
    pub version: u32,
    /// Tells the job from a later one with the same name.
    pub job_created: Timestamp,
    /// Address of the server, without credentials; empty if none is known.
    pub uri: String,
    pub experiment: String,
    /// Process that exports the job.
    pub exporter: String,
    /// Parent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Revision of the study up to which MLflow has the trials.
    pub study_revision: u64,
    /// Whether the job has ended, and MLflow has everything.
    pub is_complete: bool,
    /// Time of the last successful pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
    /// Error of the last pass, and the time since which passes fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub since: Timestamp,
    pub error: String,
}

/// Place of the states: a folder, or the documents that servers share.
#[derive(Clone)]
pub enum StateStore {
    Folder(PathBuf),
    Shared(Arc<dyn Documents>),
}

/// A stored state with its exact form.
pub(super) struct Stored {
    pub(super) state: TrackingState,
    body: Vec<u8>,
}

impl StateStore {
    pub(super) async fn get(&self, job: &JobId) -> Result<Option<Stored>, StoreError> {
        let body = match self {
            Self::Folder(folder) => read(&file(folder, job)),
            Self::Shared(documents) => documents.part(KIND, job.as_str(), 0).await?,
        };
        Ok(body.and_then(decode))
    }

    /// Replaces the state `expected` by `state`; false if another process has changed it.
    pub(super) async fn replace(
        &self,
        job: &JobId,
        expected: Option<&Stored>,
        state: TrackingState,
    ) -> Result<Option<Stored>, StoreError> {
        let body = encode(&state);
        match self {
            // The lock of the data folder admits one process.
            Self::Folder(folder) => write(&file(folder, job), &body),
            Self::Shared(documents) => {
                let before = expected.map(|stored| stored.body.clone());
                if !documents.replace(KIND, job.as_str(), before, body.clone()).await? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Stored { state, body }))
    }

    pub(super) async fn remove(&self, job: &JobId) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => {
                let path = file(folder, job);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => warn(&path, "removed", &error),
                    _ => {}
                }
                Ok(())
            }
            Self::Shared(documents) => documents.remove(KIND, job.as_str()).await,
        }
    }

    /// All jobs with a state, with the time since it was last written. A folder has one process, which needs no time.
    pub(super) async fn list(&self) -> Result<Vec<(JobId, Stored, Duration)>, StoreError> {
        let found: Vec<(String, Vec<u8>, Duration)> = match self {
            Self::Folder(folder) => names(folder)
                .filter_map(|name| {
                    let body = read(&folder.join(format!("{name}{SUFFIX}")))?;
                    Some((name.replace(SEPARATOR, "/"), body, Duration::MAX))
                })
                .collect(),
            Self::Shared(documents) => documents.list(KIND).await?,
        };
        let decoded = found.into_iter().filter_map(|(name, body, age)| Some((name.parse().ok()?, decode(body)?, age)));
        Ok(decoded.collect())
    }
}

/// End of the files' names.
const SUFFIX: &str = ".json";
/// Stands for the slash between project and job, which neither has.
const SEPARATOR: &str = "%2F";

fn file(folder: &Path, job: &JobId) -> PathBuf {
    folder.join(format!("{}{SUFFIX}", job.as_str().replace('/', SEPARATOR)))
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    if !path.exists() {
        return None;
    }
    match RootedPath::from(path.to_owned()).read(MAX_BYTES) {
        Ok(body) => Some(body),
        Err(error) => {
            warn(path, "read", &error);
            None
        }
    }
}

fn write(path: &Path, body: &[u8]) {
    let parent = path.parent().unwrap_or(Path::new("."));
    if let Err(error) = std::fs::create_dir_all(parent) {
        return warn(parent, "created", &error);
    }
    // A lost state costs time, not results: the export compares with what MLflow has.
    if let Err(error) = RootedPath::from(path.to_owned()).replace(body, false) {
        warn(path, "written", &error);
    }
}

fn warn(path: &Path, done: &str, error: &dyn std::error::Error) {
    tracing::warn!(path = %path.display(), error = %error, "the state of an export cannot be {done}");
}

fn encode(state: &TrackingState) -> Vec<u8> {
    serde_json::to_vec(state).expect("a state has text keys and no floating-point numbers")
}

/// Decodes a state; `None` for a form of another version, whose job is exported from the beginning.
fn decode(body: Vec<u8>) -> Option<Stored> {
    let state: TrackingState = serde_json::from_slice(&body).ok()?;
    (state.version == 1).then_some(Stored { state, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn states_are_kept_by_job() {
        let folder = tempfile::tempdir().unwrap();
        let states = StateStore::Folder(folder.path().join("tracking"));
        let job: JobId = "team/census".parse().unwrap();
        assert!(states.get(&job).await.unwrap().is_none());
        let state = TrackingState {
            version: 1,
            job_created: Timestamp::UNIX_EPOCH,
            uri: "http://h:5000".into(),
            experiment: "e".into(),
            exporter: "x".into(),
            run: Some("r".into()),
            study_revision: 7,
            is_complete: false,
            last_success: None,
            failing: Some(Failing { since: Timestamp::UNIX_EPOCH, error: "no".into() }),
        };
        states.replace(&job, None, state.clone()).await.unwrap().unwrap();
        assert_eq!(states.get(&job).await.unwrap().unwrap().state, state);
        let listed: Vec<JobId> = states.list().await.unwrap().into_iter().map(|(job, ..)| job).collect();
        assert_eq!(listed, std::slice::from_ref(&job));
        states.remove(&job).await.unwrap();
        states.remove(&job).await.unwrap();
        assert!(states.list().await.unwrap().is_empty());
    }
}
