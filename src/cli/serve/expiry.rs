//! Expiry of ended jobs, idle studies and files of audit logs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tunesmith_access::{AuditLog, Record};
use tunesmith_admission::use_cases;
use tunesmith_config::Retention;
use tunesmith_domain::{Study, StudyId, StudyState};
use tunesmith_jobs::Jobs;
use tunesmith_studies::Studies;
use tunesmith_studies::clock::Clock;

/// Interval of checks. A guess: retention is given in days.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Principal of deletions in the audit log.
const PRINCIPAL: &str = "server:retention";

/// Expiry by the retention of a server.
pub(super) struct Expiry {
    pub(super) jobs: Arc<Jobs>,
    pub(super) studies: Arc<Studies>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) retention: watch::Receiver<Retention>,
    /// Log of the deletions.
    pub(super) admin_activity: Arc<AuditLog>,
    /// Logs whose files expire.
    pub(super) audit_logs: Vec<Arc<AuditLog>>,
}

impl Expiry {
    /// Removes what has expired, at once, hourly, and after a change of the retention. Never completes.
    pub(super) async fn run(self) {
        let mut schedule = Schedule::new(INTERVAL, self.retention.clone());
        loop {
            let retention = schedule.next().await;
            if let Err(error) = self.expire(retention).await {
                tracing::error!(error = format!("{error:#}"), "expired jobs and studies could not be deleted");
            }
            self.maintain_logs().await;
        }
    }

    async fn expire(&self, Retention { jobs, studies }: Retention) -> anyhow::Result<()> {
        let now = self.clock.now();
        if let Some(time) = jobs.map(|kept| before(now, kept)) {
            for id in self.jobs.delete_ended_before(time).await? {
                let (project, job) = id.parts();
                self.record(use_cases::DELETE_JOB.name(), &format!("projects/{project}/jobs/{job}"));
            }
        }
        if let Some(time) = studies.map(|kept| before(now, kept)) {
            let used = self.used_studies().await?;
            for id in self.studies.delete_idle_since(time, |study| used.contains(study)).await? {
                self.record(use_cases::DELETE_STUDY.name(), &id.to_string());
            }
        }
        Ok(())
    }

    /// Studies whose trials an active study or an unfinished job reuses.
    async fn used_studies(&self) -> anyhow::Result<HashSet<StudyId>> {
        let is_active = |study: &Study| study.state == StudyState::Active;
        let mut using = self.studies.pick(None, |study| is_active(&study).then(|| study.sources())).await?;
        for study in self.jobs.pick(|job| job.study.clone().filter(|_| !job.state.is_final())).await? {
            using.push(self.studies.study(&study).await?.sources());
        }
        Ok(using.into_iter().flat_map(|sources| sources.continued.into_iter().chain(sources.related)).collect())
    }

    fn record(&self, method: &str, resource: &str) {
        tracing::info!(resource, "deleted after its retention");
        let recorded = self.admin_activity.write(&Record {
            time: self.clock.now(),
            principal: PRINCIPAL,
            caller_ip: None,
            method,
            resource,
            permission: None,
            status: 200,
            request_id: "",
            count: None,
        });
        if let Err(error) = recorded {
            tracing::error!(error = &error as &dyn std::error::Error, "an audit record could not be written");
        }
    }

    async fn maintain_logs(&self) {
        let (logs, now) = (self.audit_logs.clone(), self.clock.now());
        let maintained = tokio::task::spawn_blocking(move || {
            for log in logs {
                match log.maintain(now) {
                    Ok(removed) => {
                        for path in removed {
                            tracing::info!(path = %path.display(), "an audit log file was removed after its retention");
                        }
                    }
                    Err(error) => {
                        tracing::error!(error = &error as &dyn std::error::Error, "an audit log could not be rotated");
                    }
                }
            }
        });
        if let Err(error) = maintained.await {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit logs could not be rotated");
        }
    }
}

/// Times of checks: at once, after each period, and after each change of the retention.
struct Schedule {
    due: Interval,
    retention: watch::Receiver<Retention>,
}

impl Schedule {
    fn new(period: Duration, retention: watch::Receiver<Retention>) -> Self {
        let mut due = interval(period);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { due, retention }
    }

    /// Waits for the next check, and returns its retention.
    async fn next(&mut self) -> Retention {
        let changed = async {
            if self.retention.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = self.due.tick() => {}
            () = changed => {}
        }
        *self.retention.borrow_and_update()
    }
}

/// The time `kept` before `now`.
fn before(now: Timestamp, kept: Duration) -> Timestamp {
    now.checked_sub(kept).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[tokio::test]
    async fn check_is_due_at_once_and_a_change_does_not_wait_for_the_hour() {
        let (set, retention) = watch::channel(Retention::default());
        let mut schedule = Schedule::new(INTERVAL, retention);
        assert_eq!(schedule.next().await, Retention::default());
        let changed = Retention { jobs: Some(DAY), studies: None };
        set.send_replace(changed);
        assert_eq!(schedule.next().await, changed);
        let again = tokio::time::timeout(Duration::ZERO, schedule.next()).await;
        assert!(again.is_err(), "one check for a change, and the next after an hour: {again:?}");
    }

    #[tokio::test]
    async fn checks_are_periodic_also_if_the_retention_can_no_longer_change() {
        let kept = Retention { jobs: None, studies: Some(DAY) };
        let (set, retention) = watch::channel(kept);
        drop(set);
        let mut schedule = Schedule::new(Duration::from_millis(1), retention);
        for _ in 0..3 {
            assert_eq!(schedule.next().await, kept);
        }
    }
}
