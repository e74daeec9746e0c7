//! Log quota options, and the task that enforces them.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tunesmith_jobs::{Jobs, LogLimiter, LogLimits};

/// Check interval. Programs can exceed a quota by their output in this time.
const INTERVAL: Duration = Duration::from_secs(30);

/// Default of `--job-log-quota`; a guess, far above what people read.
const JOB_QUOTA_MIB: u32 = 10 << 10;

/// Default of `--project-log-quota`; a guess.
const PROJECT_QUOTA_MIB: u32 = 100 << 10;

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Maximum disk space of the logs of a job in MiB; 0 for no limit. The oldest logs keep their head and their tail.
    #[arg(long, value_name = "MIB", default_value_t = JOB_QUOTA_MIB)]
    job_log_quota: u32,
    /// Maximum disk space of the logs of all jobs of a project in MiB; 0 for no limit. The logs of the jobs that ended
    /// earliest are shortened first.
    #[arg(long, value_name = "MIB", default_value_t = PROJECT_QUOTA_MIB)]
    project_log_quota: u32,
    /// Remove the logs of jobs that ended this many days ago. By default, logs are never removed.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    log_retention: Option<u32>,
}

impl LogArgs {
    pub(super) fn limits(&self) -> LogLimits {
        let bytes = |mib: u32| Some(u64::from(mib) << 20).filter(|bytes| *bytes > 0);
        LogLimits {
            job_bytes: bytes(self.job_log_quota),
            project_bytes: bytes(self.project_log_quota),
            retention: self.log_retention.map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
        }
    }
}

/// Enforces `limits` on the logs of `jobs`. Never completes.
pub(super) async fn keep(jobs: Arc<Jobs>, limits: LogLimits) {
    let mut limiter = LogLimiter::new(limits);
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = limiter.check(&jobs).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the space of logs could not be limited");
        }
    }
}
