//! Logs of a job, which all executors store in the folder of the job's files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::log_space;
use super::logs::{self, LogChunk, LogFile, LogName, LogStart};

#[derive(Debug, Clone)]
pub struct JobLogs {
    folder: PathBuf,
}

impl JobLogs {
    /// Logs of the job whose files are in `folder`. Does no IO.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Lists the logs in order, optionally only those of `trial`.
    ///
    /// # Errors
    /// If the logs cannot be listed.
    pub async fn list(self, trial: Option<u64>) -> io::Result<Vec<LogFile>> {
        self.blocking(move |folder| logs::logs(folder, trial)).await
    }

    /// Reads about `limit` bytes of the log `name`; `None` if there is no such log. Chunks end at character boundaries,
    /// unless the log does not.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn read(self, name: LogName, start: LogStart, limit: usize) -> io::Result<Option<LogChunk>> {
        self.blocking(move |folder| logs::read(folder, &name, start, limit)).await
    }

    /// Limits the logs to `max_bytes` and returns their remaining disk space in bytes. Logs of running programs keep
    /// their heads and tails.
    ///
    /// # Errors
    /// If the logs cannot be listed or shortened.
    pub async fn limit(self, max_bytes: u64) -> io::Result<u64> {
        self.blocking(move |folder| log_space::limit(folder, max_bytes, SystemTime::now())).await
    }

    /// Removes the logs and returns their number. No program may be running.
    ///
    /// # Errors
    /// If the logs cannot be listed or removed.
    pub async fn remove(self) -> io::Result<usize> {
        self.blocking(log_space::remove).await
    }

    async fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        tokio::task::spawn_blocking(move || work(&self.folder)).await?
    }
}
