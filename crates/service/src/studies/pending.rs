//! Suggestions that were accepted and are not complete, one file or shared document each, so that the next process or
//! another server can continue them.

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

/// The kind of the documents.
const KIND: &str = "suggestion";

/// A suggestion whose server has not renewed it for this time is continued by another one. A guess: three renewals.
const ABANDONED: Duration = Duration::from_secs(30);

/// The interval at which a server renews the suggestions that it computes.
pub(super) const RENEWAL: Duration = Duration::from_secs(10);

/// Where the suggestions are stored; the default stores nothing.
#[derive(Clone, Default)]
pub struct PendingSuggestions {
    place: Place,
}

#[derive(Clone, Default)]
enum Place {
    #[default]
    Nowhere,
    Folder(PathBuf),
    Shared(Arc<dyn Documents>),
}

/// What is known of an operation that this process does not compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Another server computes it.
    Running,
    /// The server that computed it has died.
    Abandoned,
}

impl PendingSuggestions {
    /// Files in `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { place: Place::Folder(folder) }
    }

    /// Documents that several servers share.
    pub fn shared(documents: Arc<dyn Documents>) -> Self {
        Self { place: Place::Shared(documents) }
    }

    /// Stores `operation`, so that it survives the end of the process.
    pub(super) async fn put(&self, operation: &SuggestionOperation) -> io::Result<()> {
        match &self.place {
            Place::Nowhere => Ok(()),
            Place::Folder(folder) => {
                let (folder, operation) = (folder.clone(), operation.clone());
                blocking(move || write(&folder, &operation)).await
            }
            Place::Shared(documents) => {
                let body = document(operation).to_string().into_bytes();
                documents.put(KIND, &name(operation), 0, body).await.map_err(io::Error::other)
            }
        }
    }

    /// Notes that this process still computes `operation`.
    pub(super) async fn renew(&self, operation: &SuggestionOperation) {
        if let Place::Shared(documents) = &self.place
            && let Err(error) = documents.touch(KIND, &name(operation)).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "another server may compute a suggestion as well");
        }
    }

    /// Removes `operation`.
    pub(super) async fn remove(&self, operation: &SuggestionOperation) {
        let removed = match &self.place {
            Place::Nowhere => Ok(()),
            Place::Folder(folder) => match tokio::fs::remove_file(path(folder, operation)).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
            Place::Shared(documents) => documents.remove(KIND, &name(operation)).await.map_err(io::Error::other),
        };
        if let Err(error) = removed {
            let name = name(operation);
            tracing::error!(suggestion = name, %error, "a complete suggestion is continued at the next start");
        }
    }

    /// The stored operations that no running server computes, oldest first.
    pub(super) async fn all(&self) -> io::Result<Vec<SuggestionOperation>> {
        match &self.place {
            Place::Nowhere => Ok(Vec::new()),
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || read_all(&folder)).await
            }
            Place::Shared(documents) => {
                let listed = documents.list(KIND).await.map_err(io::Error::other)?;
                let abandoned = listed.into_iter().filter(|(_, _, age)| *age >= ABANDONED);
                let read = |(name, body, _): (String, Vec<u8>, Duration)| {
                    let read = serde_json::from_slice(&body).ok().and_then(|document| operation(&document));
                    if read.is_none() {
                        tracing::error!(suggestion = name, "a pending suggestion is damaged and cannot be continued");
                    }
                    read
                };
                let mut operations: Vec<SuggestionOperation> = abandoned.filter_map(read).collect();
                operations.sort_by_key(|operation| operation.start_time);
                Ok(operations)
            }
        }
    }

    /// What is known of `operation`, which this process does not compute; `None` if it is not pending.
    pub(super) async fn elsewhere(&self, operation: &SuggestionOperation) -> io::Result<Option<Elsewhere>> {
        let Place::Shared(documents) = &self.place else { return Ok(None) };
        let name = name(operation);
        let listed = documents.list(KIND).await.map_err(io::Error::other)?;
        let age = listed.into_iter().find(|(known, ..)| *known == name).map(|(_, _, age)| age);
        Ok(age.map(|age| if age < ABANDONED { Elsewhere::Running } else { Elsewhere::Abandoned }))
    }
}

/// The name of `operation`: a digest of its content.
fn name(operation: &SuggestionOperation) -> String {
    hex::encode(Sha256::digest(document(operation).to_string()))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// The file of `operation`.
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
    // Not synced: after a loss of power the client requests suggestions again.
    file.persist(path(folder, operation))?;
    Ok(())
}

fn read_all(folder: &Path) -> io::Result<Vec<SuggestionOperation>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut operations = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            // A write that a former process did not finish.
            fs::remove_file(&path)?;
            continue;
        }
        match serde_json::from_slice(&fs::read(&path)?).ok().and_then(|document| operation(&document)) {
            Some(operation) => operations.push(operation),
            None => tracing::error!(path = %path.display(), "a pending suggestion is damaged and cannot be continued"),
        }
    }
    operations.sort_by_key(|operation| operation.start_time);
    Ok(operations)
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
