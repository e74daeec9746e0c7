//! The access tokens of servers on one database: a document, of which the token file of each data folder is a copy.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use tunesmith_data_dir::{DataDir, DataDirError, StoreKind, tokens_of};
use tunesmith_access::TokenFile;
use tunesmith_store::{Documents, PostgresDocuments, StoreError};

/// The kind and the name of the document.
const KIND: &str = "tokens";
const NAME: &str = "all";

/// The file in a data folder that states that its tokens are those of the database.
const COPIED: &str = "tokens.shared";

/// Interval at which a server reads the tokens. A token that was revoked is accepted for so long at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// The tokens of a database, and their copy in a data folder.
pub(crate) struct SharedTokens {
    documents: Arc<dyn Documents>,
    file: TokenFile,
    copied: std::path::PathBuf,
}

impl SharedTokens {
    /// The tokens of `documents`, copied to `folder`.
    pub(crate) fn new(documents: Arc<dyn Documents>, folder: &Path) -> Self {
        Self { documents, file: TokenFile::new(tokens_of(folder)), copied: folder.join(COPIED) }
    }

    /// The tokens of the database of the data folder `folder`; `None` if its store is in the folder, or it has none yet.
    ///
    /// # Errors
    /// If the database cannot be used.
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

    /// Copies the tokens of the database to the folder. Those of a folder that is used with the database for the first
    /// time become those of the database, unless it has some.
    ///
    /// # Errors
    /// If the database does not answer, or the file cannot be read or written.
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

    /// Makes `change` of the copy in the folder, and passes it on to the database.
    ///
    /// # Errors
    /// That of the change; or if another server has changed the tokens meanwhile, or the database does not answer.
    pub(crate) async fn change<T>(&self, change: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.pull().await?;
        let before = self.file.content()?;
        let result = change()?;
        let after = self.file.content()?;
        let stored = match after.clone() {
            None => self.documents.remove(KIND, NAME).await.map(|()| true),
            Some(content) => self.documents.replace(KIND, NAME, before, content).await,
        };
        // A repeated statement may have found its own result.
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
            bail!("the tokens were changed through another server at the same time; try again");
        }
        Ok(result)
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
