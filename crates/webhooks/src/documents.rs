//! Documents of webhooks: cursors and outboxes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tunesmith_files::{OpenError, RootedPath};
use tunesmith_store::{Documents, StoreError};

/// Maximum size of a file. Events are bounded, and cursors small.
const MAX_BYTES: u64 = 256 << 10;
/// End of the files' names.
const SUFFIX: &str = ".json";

/// Location of the documents: a folder, or the documents that servers share.
#[derive(Clone)]
pub enum DocumentStore {
    Folder(PathBuf),
    Shared(Arc<dyn Documents>),
}

impl DocumentStore {
    /// Whether other servers use the same documents.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    pub(crate) async fn read(&self, kind: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Folder(folder) => {
                let path = file(folder, kind, name);
                blocking(move || match RootedPath::from(path).read(MAX_BYTES) {
                    Ok(body) => Ok(Some(body)),
                    Err(error) if error.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                })
                .await
            }
            Self::Shared(documents) => documents.part(kind, name, 0).await,
        }
    }

    /// Adds a document durably. No effect if the name is taken.
    pub(crate) async fn add(&self, kind: &str, name: &str, body: Vec<u8>) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => write(file(folder, kind, name), body, true).await,
            Self::Shared(documents) => documents.get_or_put(kind, name, body).await.map(drop),
        }
    }

    /// Replaces the document `expected`, or its absence; false if another server has changed it.
    pub(crate) async fn replace(
        &self,
        kind: &str,
        name: &str,
        expected: Option<Vec<u8>>,
        body: Vec<u8>,
    ) -> Result<bool, StoreError> {
        match self {
            // The lock of the data folder admits one process. After a crash, an older cursor derives the same events.
            Self::Folder(folder) => write(file(folder, kind, name), body, false).await.map(|()| true),
            Self::Shared(documents) => documents.replace(kind, name, expected, body).await,
        }
    }

    pub(crate) async fn remove(&self, kind: &str, name: &str) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => {
                let path = file(folder, kind, name);
                blocking(move || match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::from(error)),
                    _ => Ok(()),
                })
                .await
            }
            Self::Shared(documents) => documents.remove(kind, name).await,
        }
    }

    /// Names of all documents of `kind`, in order.
    pub(crate) async fn names(&self, kind: &str) -> Result<Vec<String>, StoreError> {
        let mut names: Vec<String> = match self {
            Self::Folder(folder) => {
                let folder = folder.join(kind);
                blocking(move || names_in(&folder)).await?
            }
            Self::Shared(documents) => documents.list(kind).await?.into_iter().map(|(name, ..)| name).collect(),
        };
        names.sort_unstable();
        Ok(names)
    }
}

fn file(folder: &Path, kind: &str, name: &str) -> PathBuf {
    folder.join(kind).join(format!("{name}{SUFFIX}"))
}

fn names_in(folder: &Path) -> Result<Vec<String>, OpenError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Some(name) = entry?.file_name().to_str().and_then(|name| name.strip_suffix(SUFFIX)) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

async fn write(path: PathBuf, body: Vec<u8>, durable: bool) -> Result<(), StoreError> {
    blocking(move || {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        RootedPath::from(path).replace(&body, durable)
    })
    .await
}

/// Runs `work` on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, StoreError> {
    const OPERATION: &str = "use the documents of webhooks";
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(StoreError::NotApplied { operation: OPERATION, source: error.into() }),
        Err(error) => Err(StoreError::NotApplied { operation: OPERATION, source: error.into() }),
    }
}
