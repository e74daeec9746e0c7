//! Access tokens of servers that share a database. The token file of each data folder is a copy of one document.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use tunesmith_access::TokenFile;
use tunesmith_admission::{ApplyTokenChange, refused_change};
use tunesmith_data_dir::{DataDir, DataDirError, StoreKind, tokens_of};
use tunesmith_domain::{Code, Refusal};
use tunesmith_store::{Documents, PostgresDocuments, StoreError};

/// Kind and name of the document.
const KIND: &str = "tokens";
const NAME: &str = "all";

/// File in a data folder that marks its tokens as those of the database.
const COPIED: &str = "tokens.shared";

/// Polling interval of the tokens, and thus the maximum delay of a revocation.
const INTERVAL: Duration = Duration::from_secs(1);

/// Attempts at a change that meets changes of other servers.
const ATTEMPTS: usize = 5;

#[derive(Debug, thiserror::Error)]
#[error("the tokens were changed through another server at the same time; try again")]
struct ChangedMeanwhile;

/// Tokens of a database, and their copy in a data folder.
pub(crate) struct SharedTokens {
    documents: Arc<dyn Documents>,
    file: TokenFile,
    copied: std::path::PathBuf,
}

impl SharedTokens {
    /// Tokens of `documents`, copied to `folder`.
    pub(crate) fn new(documents: Arc<dyn Documents>, folder: &Path) -> Self {
        Self { documents, file: TokenFile::new(tokens_of(folder)), copied: folder.join(COPIED) }
    }

    /// Tokens of the database of the data folder `folder`; `None` if the store is in the folder, or there is none yet.
    ///
    /// # Errors
    /// If the database is unusable.
    pub(crate) async fn of_folder(folder: &Path) -> anyhow::Result<Option<Self>> {
        let data_dir = match DataDir::open_read_only(folder, "tunesmith tokens") {
            Ok(data_dir) => data_dir,
            Err(error @ DataDirError::Store(StoreError::BeforeRelease { .. })) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        if data_dir.kind() != StoreKind::Postgres {
            return Ok(None);
        }
        data_dir.store().await?;
        let shared = data_dir.shared_store().context("the database is not open")?;
        Ok(Some(Self::new(Arc::new(PostgresDocuments::new(shared)), data_dir.path())))
    }

    /// Copies the database's tokens to the folder. On first use with the database, the folder's own tokens are uploaded
    /// unless the database has some.
    ///
    /// # Errors
    /// If the database does not respond, or the file is not readable or writable.
    pub(crate) async fn pull(&self) -> anyhow::Result<()> {
        let mut shared = self.documents.part(KIND, NAME, 0).await?;
        let own = self.file.content()?;
        if shared.is_none() && own.is_some() && !self.copied.exists() {
            let own = own.clone().unwrap_or_default();
            shared = Some(self.documents.get_or_put(KIND, NAME, own).await?);
        }
        if shared != own {
            self.file.set_content(shared.as_deref())?;
        }
        if !self.copied.exists() {
            std::fs::write(&self.copied, "tunesmith tokens 1, shared\n")?;
        }
        Ok(())
    }

    /// Applies `change` to the folder's copy and uploads it.
    ///
    /// # Errors
    /// Errors of the change; or if another server has changed the tokens in the meantime, or the database does not
    /// respond.
    pub(crate) async fn change<T>(&self, change: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.pull().await?;
        let before = self.file.content()?;
        let result = change()?;
        let after = self.file.content()?;
        let stored = match after.clone() {
            None => self.documents.remove(KIND, NAME).await.map(|()| true),
            Some(content) => self.documents.replace(KIND, NAME, before, content).await,
        };
        // A retried statement may find its own result.
        let is_stored = match stored {
            Ok(true) => true,
            Ok(false) => self.documents.part(KIND, NAME, 0).await? == after,
            Err(error) => {
                self.pull().await.ok();
                return Err(error.into());
            }
        };
        if !is_stored {
            self.pull().await?;
            return Err(ChangedMeanwhile.into());
        }
        Ok(result)
    }

    /// Changes for callers of this server.
    pub(crate) fn changes(self) -> ApplyTokenChange {
        let (shared, queue) = (Arc::new(self), Arc::new(tokio::sync::Mutex::new(())));
        Arc::new(move |change| {
            let (shared, queue) = (Arc::clone(&shared), Arc::clone(&queue));
            Box::pin(async move {
                let _guard = queue.lock().await;
                let file = shared.file.clone();
                let mut attempts = 1..ATTEMPTS;
                let applied = loop {
                    match shared.change(|| Ok(file.apply(change.clone()))).await {
                        Err(error) if error.is::<ChangedMeanwhile>() && attempts.next().is_some() => {}
                        applied => break applied,
                    }
                };
                let applied = applied.map_err(|error| {
                    tracing::error!(error = format!("{error:#}"), "the tokens of the database cannot be changed");
                    Refusal::new(Code::Aborted, format!("the tokens cannot be changed: {error}"))
                })?;
                applied.map_err(refused_change)
            })
        })
    }

    /// Keeps the copy up to date. Never completes.
    pub(crate) async fn follow(self) {
        let mut last_error = String::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let error = match self.pull().await {
                Ok(()) => String::new(),
                // Requests fail, too.
                Err(error) if error.downcast_ref::<StoreError>().is_some() => continue,
                Err(error) => format!("{error:#}"),
            };
            if error != last_error && !error.is_empty() {
                tracing::error!(error, "the tokens of the database cannot be copied to the data folder");
            }
            last_error = error;
        }
    }
}
