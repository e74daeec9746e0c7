//! The logs of the programs of a job. Not here: where an executor keeps them.

use std::io;

use tunesmith_domain::{JobId, JobState};
pub use tunesmith_executor::logs::{LogChunk, LogFile, LogName, LogStart, LogStream, MASTER, PACKAGES};
use tunesmith_store::StoreError;

use super::jobs::Jobs;

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The job does not exist, or the store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The executor cannot read them.
    #[error("the logs cannot be read")]
    Unreadable(#[source] io::Error),
}

impl Jobs {
    /// Returns the state of the job `id`, and its logs at that time or later, in order; of one trial only if `trial` names
    /// it.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn logs(&self, id: &JobId, trial: Option<u64>) -> Result<(JobState, Vec<LogFile>), LogError> {
        let state = self.services.store.job(id).await?.state;
        let folder = (self.services.directory)(id);
        let logs = self.services.executor.logs(&folder, trial).await.map_err(LogError::Unreadable)?;
        Ok((state, logs))
    }

    /// Reads about `limit` bytes of the log `name` of the job `id`; `None` if there is no such log.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn read_log(
        &self,
        id: &JobId,
        name: &LogName,
        start: LogStart,
        limit: usize,
    ) -> Result<Option<LogChunk>, LogError> {
        self.services.store.job(id).await?;
        let folder = (self.services.directory)(id);
        self.services.executor.read_log(&folder, name, start, limit).await.map_err(LogError::Unreadable)
    }
}
