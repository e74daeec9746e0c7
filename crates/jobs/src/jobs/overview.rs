//! Snapshot of the service for users: the queue, and reasons for waiting.

use std::pin::pin;

use futures::TryStreamExt;

use super::{Jobs, JobsError, QueueLimits};
use crate::live_trials::TrialKey;
use crate::resource_pool::PoolLoad;
use tunesmith_domain::{Job, JobId, StudyId, TrialId, WaitKind, Waiting};
use tunesmith_store::pages;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueLoad {
    /// Waiting jobs, in start order.
    pub queued: Vec<JobId>,
    /// Used and total slots for jobs without a named executor; `None` if this process runs no queue.
    pub slots: Option<(usize, usize)>,
}

impl Jobs {
    pub fn load(&self) -> QueueLoad {
        let kind = self.usual_slot_kind();
        let state = self.state();
        let slots = state.slots.as_ref().map(|slots| slots.load(kind));
        QueueLoad { queued: state.queue.jobs().map(|(id, _)| id.clone()).collect(), slots }
    }

    /// Resources of this process and their usage.
    pub fn resources(&self) -> PoolLoad {
        self.services.pool.load()
    }

    pub fn queue_limits(&self) -> QueueLimits {
        *self.queue_limits.lock()
    }

    /// Number of jobs ahead of `job` if it is queued, and why it or its trials wait. Trials waiting in their engine for
    /// the same reason are counted together.
    pub fn wait_of(&self, job: &Job) -> (Option<usize>, Vec<Waiting>) {
        let position = self.state().queue.position(&job.id);
        let mut waiting = self.waiting(job);
        let reasons = job.study.as_ref().map(|study| self.services.live.waiting_reasons(study));
        for (reason, (first, trials)) in reasons.unwrap_or_default() {
            let trial = (trials == 1).then_some(first);
            let since = job.start_time.unwrap_or(job.create_time);
            waiting.push(Waiting { kind: WaitKind::Engine, reason, trial, trials, since });
        }
        (position, waiting)
    }

    /// Why the trial's program has not started; `None` if it has, or runs elsewhere.
    pub fn waiting_reason(&self, study: &StudyId, trial: TrialId) -> Option<String> {
        self.services.live.waiting_reason(&TrialKey { study: study.clone(), trial })
    }

    /// Filters and maps the jobs of all projects, by ID.
    pub async fn pick<T>(&self, mut pick: impl FnMut(Job) -> Option<T> + Send) -> Result<Vec<T>, JobsError> {
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        let mut picked = Vec::new();
        while let Some(job) = jobs.try_next().await? {
            picked.extend(pick(job));
        }
        Ok(picked)
    }
}
