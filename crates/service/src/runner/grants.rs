//! Grants of resources for the programs of one job.

use tokio::time::Instant;

use super::{Context, RunError};
use crate::JobEvent;
use crate::resource_pool::{Claim, Grant, PendingGrant};
use tunesmith_domain::{Job, JobPlan, Resources, TrialId};
use tunesmith_executor::{ExecutorJobId, Replica};

/// A request for the next program of a job.
pub(super) struct NextGrant {
    request: PendingGrant,
    since: Instant,
}

/// The resources of every replica of `plan`, the master first.
pub(crate) fn replica_resources(plan: &JobPlan) -> Vec<Resources> {
    let of_group = |count: u32, resources: &Resources| std::iter::repeat_n(resources.clone(), count as usize);
    let others = plan.replicas.iter().flat_map(|group| of_group(group.count, &group.resources));
    std::iter::once(plan.machines.resources.clone()).chain(others).collect()
}

/// The resources that a program of an earlier process was submitted with, and its accelerators.
pub(crate) fn submitted_resources(replicas: &[Replica]) -> (Vec<Resources>, Option<Vec<Vec<String>>>) {
    let resources = replicas.iter().map(|replica| replica.resources.clone()).collect();
    (resources, replicas.iter().map(|replica| replica.devices.clone()).collect())
}

/// The claim of programs of `job` on `replicas`.
pub(crate) fn claim(job: &Job, trial: Option<TrialId>, replicas: Vec<Resources>, since: jiff::Timestamp) -> Claim {
    let plan = job.plan.as_ref().ok();
    let principal = plan.and_then(|plan| plan.principal.clone());
    let executor = plan.and_then(|plan| plan.machines.executor.clone());
    Claim { job: job.id.clone(), trial, principal, executor, replicas, trials: 1, since }
}

impl Context {
    /// Requests the resources of a program, for `trials` trials that wait.
    pub(super) fn request_grant(&self, trial: Option<TrialId>, trials: u64) -> NextGrant {
        let now = self.services().clock.now();
        let claim = Claim { trials, ..claim(&self.job, trial, replica_resources(&self.plan), now) };
        NextGrant { request: self.services().pool.request(claim), since: Instant::now() }
    }

    /// Returns the grant of the program `id`, which an earlier process has started.
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

    /// When `next` has waited for too long, counted from `idle_since` if that is later; `None` if it may wait for any time.
    pub(super) fn deadline(&self, next: &NextGrant, idle_since: Instant) -> Option<Instant> {
        let limit = self.services().pool.queue_deadline()?;
        next.since.max(idle_since).checked_add(limit)
    }

    /// Why `next` has waited for too long.
    pub(super) fn overdue_reason(&self, next: &NextGrant) -> String {
        self.overdue_text(&next.request.reason().map(|waiting| waiting.reason).unwrap_or_default())
    }

    /// States that something has waited for too long for `reason`.
    pub(super) fn overdue_text(&self, reason: &str) -> String {
        let limit = self.services().pool.queue_deadline().unwrap_or_default();
        format!("waited longer than the queue deadline of {} s of this server: {reason}", limit.as_secs_f64())
    }

    /// Emits why `next` waits, unless `shown` is that reason.
    pub(super) fn show_waiting(&self, next: &NextGrant, shown: &mut String) {
        if let Some(waiting) = next.request.reason()
            && waiting.reason != *shown
        {
            shown.clone_from(&waiting.reason);
            self.emit(JobEvent::Waiting { waiting });
        }
    }
}

impl NextGrant {
    /// Waits for the grant.
    pub(super) async fn granted(&mut self) -> Grant {
        self.request.granted().await
    }

    /// Sets the number of trials that wait.
    pub(super) fn set_trials(&mut self, trials: u64) {
        self.request.set_trials(trials);
    }
}

/// Waits until `deadline`. Never completes without one.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
