//! Logs of a job's programs.

use tunesmith_domain::{JobId, JobState};
use tunesmith_executor::JobLogs;
pub use tunesmith_executor::logs::{LogChunk, LogFile, LogName, LogStart, LogStream, MASTER, PACKAGES};

use super::jobs::{Jobs, JobsError};

impl Jobs {
    /// State of the job, and its logs at that time or later, in order; restricted to one trial if `trial` is given.
    pub async fn logs(&self, id: &JobId, trial: Option<u64>) -> Result<(JobState, Vec<LogFile>), JobsError> {
        let state = self.services.store.job(id).await?.state;
        let folder = (self.services.directory)(id);
        let logs = JobLogs::new(folder).list(trial).await.map_err(JobsError::Logs)?;
        Ok((state, logs))
    }

    /// Reads about `limit` bytes of the log `name`; `None` if there is no such log.
    pub async fn read_log(
        &self,
        id: &JobId,
        name: &LogName,
        start: LogStart,
        limit: usize,
    ) -> Result<Option<LogChunk>, JobsError> {
        self.services.store.job(id).await?;
        let folder = (self.services.directory)(id);
        JobLogs::new(folder).read(name.clone(), start, limit).await.map_err(JobsError::Logs)
    }
}
