//! Suggestions that were accepted and are not complete, one file each, so that the next process can continue them.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{SuggestionOperation, SuggestionRequest};

/// The folder of the files; the default stores nothing.
#[derive(Debug, Clone, Default)]
pub struct PendingSuggestions {
    folder: Option<PathBuf>,
}

impl PendingSuggestions {
    /// Files in `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// Stores `operation`, so that it survives the end of the process.
    pub(super) async fn put(&self, operation: &SuggestionOperation) -> io::Result<()> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let operation = operation.clone();
        blocking(move || write(&folder, &operation)).await
    }

    /// Removes `operation`.
    pub(super) async fn remove(&self, operation: &SuggestionOperation) {
        let Some(folder) = &self.folder else { return };
        let path = path(folder, operation);
        match tokio::fs::remove_file(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(path = %path.display(), %error, "a complete suggestion is continued at the next start");
            }
            _ => {}
        }
    }

    /// All stored operations, oldest first.
    pub(super) async fn all(&self) -> io::Result<Vec<SuggestionOperation>> {
        let Some(folder) = self.folder.clone() else { return Ok(Vec::new()) };
        blocking(move || read_all(&folder)).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// The file of `operation`.
fn path(folder: &Path, operation: &SuggestionOperation) -> PathBuf {
    folder.join(format!("{}.json", hex::encode(Sha256::digest(document(operation).to_string()))))
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
