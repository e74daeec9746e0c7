//! Accepted, incomplete suggestions, one file or shared document each, from which the next process or another server
//! resumes.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{SuggestionOperation, SuggestionRequest};
use tunesmith_store::Documents;

const KIND: &str = "suggestion";

/// Age without renewal after which another server resumes a suggestion. A guess: three renewals.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// Renewal interval of suggestions being computed.
pub(super) const RENEWAL: Duration = Duration::from_secs(10);

/// Storage of pending suggestions; the default stores nothing.
#[derive(Clone, Default)]
pub struct PendingSuggestions {
    storage: Storage,
}

#[derive(Clone, Default)]
enum Storage {
    #[default]
    None,
    Folder(PathBuf),
    Shared(Arc<dyn Documents>),
}

/// State of an operation not computed by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteState {
    Running,
    Abandoned,
}

impl PendingSuggestions {
    /// Files in `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { storage: Storage::Folder(folder) }
    }

    pub fn shared(documents: Arc<dyn Documents>) -> Self {
        Self { storage: Storage::Shared(documents) }
    }

    pub(super) async fn put(&self, operation: &SuggestionOperation) -> io::Result<()> {
        match &self.storage {
            Storage::None => Ok(()),
            Storage::Folder(folder) => {
                let (folder, operation) = (folder.clone(), operation.clone());
                blocking(move || write(&folder, &operation)).await
            }
            Storage::Shared(documents) => {
                let body = document(operation).to_string().into_bytes();
                documents.put(KIND, &name(operation), 0, body).await.map_err(io::Error::other)
            }
        }
    }

    /// Renews `operation`, still computed by this process.
    pub(super) async fn renew(&self, operation: &SuggestionOperation) {
        if let Storage::Shared(documents) = &self.storage
            && let Err(error) = documents.touch(KIND, &name(operation)).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "another server may compute a suggestion as well");
        }
    }

    pub(super) async fn remove(&self, operation: &SuggestionOperation) {
        let removed = match &self.storage {
            Storage::None => Ok(()),
            Storage::Folder(folder) => match tokio::fs::remove_file(path(folder, operation)).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
            Storage::Shared(documents) => documents.remove(KIND, &name(operation)).await.map_err(io::Error::other),
        };
        if let Err(error) = removed {
            let name = name(operation);
            tracing::error!(suggestion = name, %error, "a complete suggestion is continued at the next start");
        }
    }

    /// Stored operations that no live server computes, oldest first.
    pub(super) async fn all(&self) -> io::Result<Vec<SuggestionOperation>> {
        let stored = match &self.storage {
            Storage::None => Vec::new(),
            Storage::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || read_all(&folder)).await?
            }
            Storage::Shared(documents) => {
                let listed = documents.list(KIND).await.map_err(io::Error::other)?;
                let abandoned = listed.into_iter().filter(|(_, _, age)| *age >= ABANDONED_AFTER);
                abandoned.map(|(name, body, _)| (name, body)).collect()
            }
        };
        let mut operations = Vec::with_capacity(stored.len());
        for (name, body) in stored {
            match serde_json::from_slice(&body).ok().and_then(|document| operation(&document)) {
                Some(operation) => operations.push(operation),
                None => tracing::error!(suggestion = name, "a pending suggestion is damaged and cannot be continued"),
            }
        }
        operations.sort_by_key(|operation| operation.start_time);
        Ok(operations)
    }

    /// State of an operation not computed by this process; `None` if it is not pending.
    pub(super) async fn remote_state(&self, operation: &SuggestionOperation) -> io::Result<Option<RemoteState>> {
        let Storage::Shared(documents) = &self.storage else { return Ok(None) };
        let name = name(operation);
        let listed = documents.list(KIND).await.map_err(io::Error::other)?;
        let age = listed.into_iter().find(|(known, ..)| *known == name).map(|(_, _, age)| age);
        Ok(age.map(|age| if age < ABANDONED_AFTER { RemoteState::Running } else { RemoteState::Abandoned }))
    }
}

/// Digest of the operation's content.
fn name(operation: &SuggestionOperation) -> String {
    hex::encode(Sha256::digest(document(operation).to_string()))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn path(folder: &Path, operation: &SuggestionOperation) -> PathBuf {
    folder.join(format!("{}.json", name(operation)))
}

fn document(operation: &SuggestionOperation) -> Value {
    let SuggestionOperation { study, request, start_time } = operation;
    json!({
        "format": 1,
        "study": study.as_str(),
        "clientId": request.client_id,
        "count": request.count,
        "leaseMillis": request.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        "startTimeMillis": start_time.as_millisecond(),
    })
}

fn operation(document: &Value) -> Option<SuggestionOperation> {
    if document["format"] != 1 {
        return None;
    }
    let lease = match &document["leaseMillis"] {
        Value::Null => None,
        millis => Some(Duration::from_millis(millis.as_u64()?)),
    };
    Some(SuggestionOperation {
        study: document["study"].as_str()?.parse().ok()?,
        request: SuggestionRequest {
            client_id: document["clientId"].as_str()?.to_owned(),
            count: NonZeroUsize::new(usize::try_from(document["count"].as_u64()?).ok()?)?,
            lease,
        },
        start_time: Timestamp::from_millisecond(document["startTimeMillis"].as_i64()?).ok()?,
    })
}

fn write(folder: &Path, operation: &SuggestionOperation) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(document(operation).to_string().as_bytes())?;
    // Not synced: after a power cut, clients repeat their requests.
    file.persist(path(folder, operation))?;
    Ok(())
}

fn read_all(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push((path.display().to_string(), fs::read(&path)?));
        } else {
            // Incomplete write of an earlier process.
            fs::remove_file(&path)?;
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion(client: &str, second: i64, lease: Option<Duration>) -> SuggestionOperation {
        let count = NonZeroUsize::new(3).unwrap();
        SuggestionOperation {
            study: "p/l/s".parse().unwrap(),
            request: SuggestionRequest { client_id: client.to_owned(), count, lease },
            start_time: Timestamp::from_second(second).unwrap(),
        }
    }

    #[tokio::test]
    async fn operations_are_stored_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let pending = PendingSuggestions::new(folder.path().join("suggestions"));
        assert_eq!(pending.all().await.unwrap(), []);
        let (first, second) = (suggestion("a", 1, None), suggestion("b/ü\n", 2, Some(Duration::from_millis(1500))));
        pending.put(&second).await.unwrap();
        pending.put(&first).await.unwrap();
        pending.put(&first).await.unwrap();
        fs::write(folder.path().join("suggestions/damaged.json"), "{").unwrap();
        fs::write(folder.path().join("suggestions/.tmp"), "{").unwrap();
        assert_eq!(pending.all().await.unwrap(), [first.clone(), second.clone()]);
        pending.remove(&first).await;
        pending.remove(&first).await;
        assert_eq!(pending.all().await.unwrap(), [second]);
    }
}
