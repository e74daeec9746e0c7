//! Queue limits, wait deadlines, and reasons for waiting.

use tokio::time::Instant;

use super::queue::Overdue;
use super::slots::SlotKind;
use super::{Jobs, JobsError};
use tunesmith_domain::{Job, JobChange, JobId, JobPlan, JobState, PlanError, Trial, WaitKind, Waiting};
use tunesmith_store::{QueuedJobs, StoreError};

/// Limits on queued jobs; `None` for unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// Total.
    pub cluster: Option<u32>,
    /// Per project.
    pub project: Option<u32>,
    /// Per submitting principal; jobs without one are unlimited.
    pub principal: Option<u32>,
}

impl Jobs {
    /// Refuses the job `id` with `plan` at a queue limit. With several servers, counts the jobs of all and blocks their creations
    /// until the returned value is dropped.
    pub(super) async fn check_queue_limits(
        &self,
        id: Option<&JobId>,
        plan: &JobPlan,
    ) -> Result<Option<QueuedJobs>, JobsError> {
        let limits = self.queue_limits();
        if limits == QueueLimits::default() {
            return Ok(None);
        }
        let queued = self.services.claims.queued().await?;
        let project = id.map(|id| id.parts().0.to_owned()).unwrap_or_default();
        let principal = plan.principal.as_deref();
        let [mut in_all, mut of_project, mut of_principal] = [0_u32; 3];
        let mut count = |other: &JobId, other_principal: Option<&str>| {
            in_all += 1;
            of_project += u32::from(other.parts().0 == project);
            of_principal += u32::from(principal.is_some() && other_principal == principal);
        };
        match &queued {
            Some(queued) => queued.jobs.iter().for_each(|job| {
                count(&job.id, job.plan.as_ref().ok().and_then(|plan| plan.principal.as_deref()));
            }),
            None => self.state().queue.jobs().for_each(|(job, principal)| count(job, principal)),
        }
        let limits = [
            (limits.principal.filter(|_| principal.is_some()), of_principal, {
                format!("of principal {}", principal.unwrap_or_default())
            }),
            (limits.project, of_project, format!("of project {project}")),
            (limits.cluster, in_all, if queued.is_some() { "of all servers" } else { "of this server" }.to_owned()),
        ];
        let reached = limits.into_iter().find_map(|(limit, queued, whose)| {
            let limit = limit.filter(|limit| queued >= *limit)?;
            Some(format!("the limit on queued jobs {whose} is reached: {queued} of {limit} wait"))
        });
        match reached {
            Some(reason) => Err(JobsError::QueueFull(reason)),
            None => Ok(queued),
        }
    }

    /// Queues `job`, unless it has been started.
    pub(super) fn push(&self, job: &Job) -> Result<(), PlanError> {
        let (plan, slot, now) = (job.plan()?, self.slot_kind(job), self.moment());
        let mut state = self.state();
        if !state.is_started(&job.id) {
            state.queue.push(job, plan, slot, now, self.services.pool.queue_deadline());
        }
        Ok(())
    }

    pub(super) fn waiting(&self, job: &Job) -> Vec<Waiting> {
        let mut waiting = self.services.pool.waiting(&job.id);
        let state = self.state();
        if let Some(reason) = state.retry_reasons.get(&job.id) {
            waiting.push(Waiting {
                kind: WaitKind::Engine,
                reason: format!("its last run failed, and it is run again: {reason}"),
                trial: None,
                trials: 0,
                since: job.requeue_time.unwrap_or(job.create_time),
            });
        }
        if let Some(position) = state.queue.position(&job.id) {
            let ahead = match position {
                0 => "it is the next job".to_owned(),
                1 => "1 job is ahead of it".to_owned(),
                position => format!("{position} jobs are ahead of it"),
            };
            let slots = state.slots.as_ref().map(|slots| {
                let kind = state.queue.slot(&job.id).unwrap_or(SlotKind::Local);
                let ((used, all), name) = (
                    slots.load(kind),
                    match kind {
                        SlotKind::Local => "job slots",
                        SlotKind::Remote => "remote job slots",
                    },
                );
                format!("{used} of {all} {name} are in use, and ")
            });
            let before = match state.deaths {
                Some(deaths) => {
                    Some(format!("the server died {deaths} times in a row, so that jobs start one by one, and "))
                }
                None => slots,
            };
            waiting.push(Waiting {
                kind: WaitKind::JobSlot,
                reason: format!("{}{ahead}", before.unwrap_or_default()),
                trial: None,
                trials: 0,
                since: job.requeue_time.unwrap_or(job.create_time),
            });
        }
        waiting
    }

    /// Why `job` or its trials wait; `trials` are those possibly waiting in the engine.
    pub fn waits(&self, job: &Job, trials: &[Trial]) -> Vec<Waiting> {
        let mut waiting = self.waiting(job);
        for trial in trials.iter().filter(|trial| !trial.state.is_final()) {
            let reason = job.study.as_ref().and_then(|study| self.waiting_reason(study, trial.id));
            if let Some(reason) = reason {
                let since = trial.start_time.unwrap_or(trial.create_time);
                waiting.push(Waiting { kind: WaitKind::Engine, reason, trial: Some(trial.id), trials: 1, since });
            }
        }
        waiting
    }

    /// Ends jobs past their wait deadline.
    pub(super) async fn end_overdue(&self) {
        loop {
            let Some((id, overdue)) = self.state().queue.pop_overdue(Instant::now()) else { return };
            let (state, error_message) = match overdue {
                Overdue::MaxWaitTime => {
                    (JobState::Cancelled, "the job waited longer than scheduling.maxWaitTime allows".to_owned())
                }
                Overdue::QueueDeadline => {
                    let deadline = self.services.pool.queue_deadline().unwrap_or_default().as_secs_f64();
                    let text = format!(
                        "the job waited for a job slot longer than the queue deadline of {deadline} s of this server"
                    );
                    (JobState::Failed, text)
                }
            };
            let at = self.services.clock.now();
            let change = JobChange::Become { state, error_message, at };
            let ended = async {
                // Another server may have started it.
                let Some(claim) = self.services.claims.claim(&id).await? else { return Ok(()) };
                let job = self.services.store.job(&id).await?;
                if job.state == JobState::Queued && job.start_time.is_none() {
                    self.services.claims.store_of(&claim).change_job(&id, change).await?;
                }
                self.services.claims.release(&claim).await
            };
            let ended: Result<(), StoreError> = ended.await;
            if let Err(error) = ended {
                tracing::error!(job.id = %id, error = %error, "an overdue job could not be ended");
            }
        }
    }
}
