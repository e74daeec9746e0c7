//! Program logs: their tails as page sections, and the whole text for saving.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::header::{HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures::stream;

use super::console::Console;
use super::errors::PageError;
use super::format::{Size, encoded};
use super::subject::Named;
use super::visit::Visit;
use tunesmith_domain::JobId;
use tunesmith_jobs::job_logs::LogStart;

/// Number of bytes shown per log.
const TAIL: usize = 16 << 10;

const MOST: usize = 16;

/// Number of bytes read at once while a log is saved.
const PART: usize = 256 << 10;

pub(crate) struct LogPart {
    pub(crate) attempt: u64,
    pub(crate) task: String,
    pub(crate) stream: &'static str,
    pub(crate) size: Size,
    pub(crate) text: String,
    pub(crate) is_cut: bool,
    /// URL of the whole log as text.
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
                address: format!("/console/projects/{}/jobs/{job}/logs/{}", encoded(project), file.name),
            });
        }
        Ok(parts)
    }
}

/// Sends a whole log as text, part by part. A log that still grows ends where it is when the response gets there.
pub(crate) async fn save(console: Console, _: Visit, named: Named, (): ()) -> Result<Response, PageError> {
    let name = named.log()?;
    let subject = console.subject(&named).await?;
    let id =
        subject.job().map(|job| job.id.clone()).ok_or_else(|| PageError::NotFound("a study has no logs".into()))?;
    let jobs = console.jobs;
    let Some(first) = jobs.read_log(&id, &name, LogStart::At(0), PART).await? else {
        return Err(PageError::NotFound(format!("{} has no log {name}", named.name())));
    };
    let file = format!("attachment; filename=\"{}-{name}.log\"", named.name());
    let rest = stream::unfold(Some((first, 0)), move |state| {
        let (jobs, id, name) = (jobs.clone(), id.clone(), name.clone());
        async move {
            let (chunk, start) = state?;
            if chunk.next_offset == start {
                return None;
            }
            let next = match jobs.read_log(&id, &name, LogStart::At(chunk.next_offset), PART).await {
                Ok(next) => next.map(|next| (next, chunk.next_offset)),
                Err(error) => return Some((Err(error), None)),
            };
            Some((Ok(chunk.text), next))
        }
    });
    let fixed: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CONTENT_DISPOSITION, &file),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((fixed.map(|(name, value)| (name, value.to_owned())), Body::from_stream(rest)).into_response())
}
