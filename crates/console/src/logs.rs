//! Tails of program logs, as page sections.

use super::console::Console;
use super::errors::PageError;
use super::format::Size;
use tunesmith_domain::JobId;
use tunesmith_jobs::job_logs::LogStart;

/// Number of bytes shown per log.
const TAIL: usize = 16 << 10;

const MOST: usize = 16;

pub(crate) struct LogPart {
    pub(crate) attempt: u64,
    pub(crate) task: String,
    pub(crate) stream: &'static str,
    pub(crate) size: Size,
    pub(crate) text: String,
    pub(crate) is_cut: bool,
    /// URL for the whole log.
    pub(crate) address: String,
}

impl Console {
    /// Log tails of a job or one of its trials, last attempt first, without empty ones.
    pub(crate) async fn logs(&self, id: &JobId, trial: Option<u64>) -> Result<Vec<LogPart>, PageError> {
        let (_, mut files) = self.jobs.logs(id, trial).await?;
        files.retain(|file| file.name.trial == trial && file.size_bytes > 0);
        files.sort_by(|a, b| {
            (b.name.attempt, &a.name.task, b.name.stream).cmp(&(a.name.attempt, &b.name.task, a.name.stream))
        });
        let (project, job) = id.parts();
        let mut parts = Vec::new();
        for file in files.into_iter().take(MOST) {
            let chunk = self.jobs.read_log(id, &file.name, LogStart::Tail, TAIL).await?;
            let Some(chunk) = chunk else { continue };
            parts.push(LogPart {
                attempt: file.name.attempt,
                task: file.name.task.clone(),
                stream: file.name.stream.as_str(),
                size: Size(file.size_bytes),
                is_cut: file.size_bytes > TAIL as u64,
                text: chunk.text,
                address: format!("/v1/projects/{project}/jobs/{job}/logs/{}", file.name),
            });
        }
        Ok(parts)
    }
}
