//! Resource grants for the programs of one job.

use tokio::time::Instant;

use super::{Context, RunError};
use crate::JobEvent;
use crate::resource_pool::{Claim, Grant, PendingGrant};
use tunesmith_domain::{Job, JobPlan, Resources, TrialId};
use tunesmith_executor::{ExecutorJobId, Replica};

/// Resources of each replica, the master first.
pub(crate) fn replica_resources(plan: &JobPlan) -> Vec<Resources> {
    let of_group = |count: u32, resources: &Resources| std::iter::repeat_n(resources.clone(), count as usize);
    let others = plan.replicas.iter().flat_map(|group| of_group(group.count, &group.resources));
    std::iter::once(plan.machines.resources.clone()).chain(others).collect()
}

/// Resources and accelerators that a program of an earlier process was submitted with.
pub(crate) fn submitted_resources(replicas: &[Replica]) -> (Vec<Resources>, Option<Vec<Vec<String>>>) {
    let resources = replicas.iter().map(|replica| replica.resources.clone()).collect();
    (resources, replicas.iter().map(|replica| replica.devices.clone()).collect())
}

pub(crate) fn claim(job: &Job, trial: Option<TrialId>, replicas: Vec<Resources>, since: jiff::Timestamp) -> Claim {
    let plan = job.plan.as_ref().ok();
    let principal = plan.and_then(|plan| plan.principal.clone());
    let executor = plan.and_then(|plan| plan.machines.executor.clone());
    Claim { job: job.id.clone(), trial, principal, executor, replicas, trials: 1, since }
}

impl Context {
    /// Requests the resources of a program on behalf of `trials` waiting trials.
    pub(super) fn request_grant(&self, trial: Option<TrialId>, trials: u64) -> PendingGrant {
        let now = self.services().clock.now();
        let claim = Claim { trials, ..claim(&self.job, trial, replica_resources(&self.plan), now) };
        self.services().pool.request(claim)
    }

    /// Grant of a program started by an earlier process.
    pub(super) async fn adopt_grant(&self, id: &ExecutorJobId) -> Result<Grant, RunError> {
        let submitted = self.services().executor.submitted(id).await?;
        let (resources, devices) = match &submitted {
            Some(replicas) => submitted_resources(replicas),
            None => (replica_resources(&self.plan), None),
        };
        let claim = claim(&self.job, id.trial, resources, self.services().clock.now());
        let mut grant = self.services().pool.adopt(id, claim, devices);
        grant.begin_use(id);
        Ok(grant)
    }

    /// Wait deadline of `next`, counted from `idle_since` if later; `None` for unlimited.
    pub(super) fn deadline(&self, next: &PendingGrant, idle_since: Instant) -> Option<Instant> {
        let limit = self.services().pool.queue_deadline()?;
        next.requested().max(idle_since).checked_add(limit)
    }

    /// Reason for exceeding the wait deadline.
    pub(super) fn overdue_reason(&self, next: &PendingGrant) -> String {
        self.overdue_text(&next.reason().map(|waiting| waiting.reason).unwrap_or_default())
    }

    pub(super) fn overdue_text(&self, reason: &str) -> String {
        let limit = self.services().pool.queue_deadline().unwrap_or_default();
        format!("waited longer than the queue deadline of {} s of this server: {reason}", limit.as_secs_f64())
    }

    /// Emits the wait reason of `next` if it differs from `shown`.
    pub(super) fn show_waiting(&self, next: &PendingGrant, shown: &mut String) {
        if let Some(waiting) = next.reason()
            && waiting.reason != *shown
        {
            shown.clone_from(&waiting.reason);
            self.emit(JobEvent::Waiting { waiting });
        }
    }
}

/// Sleeps until `deadline`, or forever without one.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
