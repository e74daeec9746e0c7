//! Log quotas of jobs and projects, and log retention.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;

use super::{Jobs, JobsError};
use tunesmith_domain::{Job, JobId};
use tunesmith_executor::JobLogs;
use tunesmith_store::pages;

/// Optional limits on job logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogLimits {
    /// Quota per job in bytes.
    pub job_bytes: Option<u64>,
    /// Quota per project in bytes, enforced on the jobs that ended first.
    pub project_bytes: Option<u64>,
    /// Time from the end of a job to the removal of its logs.
    pub retention: Option<Duration>,
}

/// Enforces the log limits. Caches the sizes of ended jobs, so a check reads only logs that may have changed.
#[derive(Debug, Default)]
pub struct LogLimiter {
    limits: LogLimits,
    /// End time and log size, by job.
    ended: HashMap<JobId, (Timestamp, u64)>,
}

struct JobSpace {
    id: JobId,
    /// `None` for an unfinished job.
    end_time: Option<Timestamp>,
    bytes: u64,
}

impl LogLimiter {
    pub fn new(limits: LogLimits) -> Self {
        Self { limits, ended: HashMap::new() }
    }

    /// Shortens or removes logs over their limits.
    ///
    /// # Errors
    /// The first error; the remaining jobs are checked regardless.
    pub async fn check(&mut self, jobs: &Jobs) -> Result<(), JobsError> {
        let mut first_error = None;
        let mut projects: BTreeMap<String, Vec<JobSpace>> = BTreeMap::new();
        let mut seen = HashSet::new();
        let mut stored = pin!(pages::jobs(&*jobs.services.store, None));
        while let Some(job) = stored.try_next().await? {
            seen.insert(job.id.clone());
            match self.space_of(jobs, &job).await {
                Ok(bytes) => {
                    let space = JobSpace { id: job.id.clone(), end_time: job.end_time, bytes };
                    projects.entry(job.id.parts().0.to_owned()).or_default().push(space);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        self.ended.retain(|id, _| seen.contains(id));
        if let Some(max_bytes) = self.limits.project_bytes {
            for spaces in projects.into_values() {
                let limited = self.limit_project(jobs, spaces, max_bytes).await;
                first_error = first_error.or(limited.err());
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Enforces the per-job limits and returns the resulting size.
    async fn space_of(&mut self, jobs: &Jobs, job: &Job) -> Result<u64, JobsError> {
        let known = self.ended.get(&job.id).copied().filter(|(end_time, _)| job.end_time == Some(*end_time));
        let services = &jobs.services;
        let folder = (services.directory)(&job.id);
        let is_over = |end_time: Timestamp| {
            let kept = self.limits.retention.and_then(|retention| end_time.checked_add(retention).ok());
            kept.is_some_and(|until| until <= services.clock.now())
        };
        let bytes = match (job.end_time.filter(|_| job.state.is_final()), known) {
            (Some(end_time), _) if is_over(end_time) && known.is_none_or(|(_, bytes)| bytes > 0) => {
                let removed = JobLogs::new(folder).remove().await.map_err(JobsError::Logs)?;
                if removed > 0 {
                    tracing::info!(job.id = %job.id, logs = removed, "removed the logs, since the job ended long ago");
                }
                0
            }
            (Some(_), Some((_, bytes))) => bytes,
            _ => self.limit(jobs, &job.id, self.limits.job_bytes.unwrap_or(u64::MAX)).await?,
        };
        if let Some(end_time) = job.end_time.filter(|_| job.state.is_final()) {
            self.ended.insert(job.id.clone(), (end_time, bytes));
        }
        Ok(bytes)
    }

    /// Shortens logs of one project to a total of `max_bytes`: those of the jobs that ended first, then those of
    /// unfinished ones.
    async fn limit_project(&mut self, jobs: &Jobs, mut spaces: Vec<JobSpace>, max_bytes: u64) -> Result<(), JobsError> {
        let mut total = spaces.iter().map(|space| space.bytes).sum::<u64>();
        spaces.sort_by_key(|space| (space.end_time.is_none(), space.end_time));
        for JobSpace { id, end_time, bytes } in spaces {
            if total <= max_bytes {
                break;
            }
            let left = self.limit(jobs, &id, bytes.saturating_sub(total - max_bytes)).await?;
            if let Some(end_time) = end_time {
                self.ended.insert(id, (end_time, left));
            }
            total = (total - bytes).saturating_add(left);
        }
        Ok(())
    }

    async fn limit(&self, jobs: &Jobs, id: &JobId, max_bytes: u64) -> Result<u64, JobsError> {
        let folder = (jobs.services.directory)(id);
        JobLogs::new(folder).limit(max_bytes).await.map_err(JobsError::Logs)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use tempfile::TempDir;
    use tunesmith_domain::{JobChange, JobState};

    use super::super::tests::{command, jobs, submission};
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Creates a job with a 1 MiB log that ended at `end_secs`, or is unfinished with `None`.
    async fn job_with_log(jobs: &Jobs, folder: &Path, id: &str, end_secs: Option<i64>) {
        let job = jobs.submit(submission(id, command()), 1).await.unwrap().job().id.clone();
        let attempt = folder.join("jobs").join(id.rsplit_once('/').map_or(id, |(_, name)| name)).join("attempt-1");
        fs::create_dir_all(&attempt).unwrap();
        fs::write(attempt.join("stdout.log"), vec![b'x'; MIB as usize]).unwrap();
        File::open(attempt.join("stdout.log")).unwrap().sync_all().unwrap();
        if let Some(secs) = end_secs {
            let at = Timestamp::from_second(secs).unwrap();
            let change = JobChange::Become { state: JobState::Cancelled, error_message: String::new(), at };
            jobs.change(&job, change).await.unwrap();
        }
    }

    async fn space(jobs: &Jobs, id: &str) -> Option<u64> {
        let (_, logs) = jobs.logs(&id.parse().unwrap(), None).await.unwrap();
        logs.first().map(|log| log.space_bytes >> 10)
    }

    #[tokio::test]
    async fn job_that_ended_first_is_shortened_first_until_its_project_is_within_its_quota() {
        let folder = TempDir::new().unwrap();
        let jobs = jobs(&folder, Vec::new());
        for (id, end) in [("running", None), ("late", Some(9)), ("early", Some(5))] {
            job_with_log(&jobs, folder.path(), id, end).await;
        }
        job_with_log(&jobs, folder.path(), "other/alone", None).await;
        let limits = LogLimits { project_bytes: Some(2 * MIB + MIB / 2), ..LogLimits::default() };
        let mut limiter = LogLimiter::new(limits);
        for _ in 0..2 {
            limiter.check(&jobs).await.unwrap();
            let after = [space(&jobs, "early").await, space(&jobs, "late").await, space(&jobs, "running").await];
            assert_eq!(after, [Some(32), Some(1024), Some(1024)]);
        }
        LogLimiter::new(LogLimits { job_bytes: Some(MIB / 2), ..limits }).check(&jobs).await.unwrap();
        assert_eq!((space(&jobs, "late").await, space(&jobs, "running").await), (Some(32), Some(32)));
    }

    #[tokio::test]
    async fn logs_are_removed_when_the_retention_of_an_ended_job_is_over() {
        let folder = TempDir::new().unwrap();
        let jobs = jobs(&folder, Vec::new());
        for (id, end) in [("running", None), ("recent", Some(5)), ("old", Some(0))] {
            job_with_log(&jobs, folder.path(), id, end).await;
        }
        let mut limiter = LogLimiter::new(LogLimits { retention: Some(Duration::ZERO), ..LogLimits::default() });
        limiter.check(&jobs).await.unwrap();
        let after = [space(&jobs, "old").await, space(&jobs, "recent").await, space(&jobs, "running").await];
        assert_eq!(after, [None, Some(1024), Some(1024)]);
    }
}
