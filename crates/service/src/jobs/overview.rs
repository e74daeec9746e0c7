//! What the service does at the moment, for people who look at it.

use std::pin::pin;

use futures::TryStreamExt;

use super::{Jobs, JobsError, QueueLimits};
use crate::live_trials::TrialKey;
use crate::pages;
use crate::resource_pool::{PoolLoad, Waiting};
use tunesmith_domain::{Job, JobId, StudyId, Trial, TrialId};
use tunesmith_telemetry::WaitKind;

/// The queue of this process and its slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueLoad {
    /// The waiting jobs, in the order in which they start.
    pub queued: Vec<JobId>,
    /// Number of slots in use and of all slots of jobs that name no executor; `None` if this process runs no queue.
    pub slots: Option<(usize, usize)>,
}

impl Jobs {
    /// Returns what waits and what runs in this process.
    pub fn load(&self) -> QueueLoad {
        let kind = self.usual_slot_kind();
        let state = self.state();
        let slots = state.slots.as_ref().map(|slots| slots.load(kind));
        QueueLoad { queued: state.queue.jobs().map(|(id, _)| id.clone()).collect(), slots }
    }

    /// Returns the resources of this process, and what of them is in use.
    pub fn resources(&self) -> PoolLoad {
        self.services.pool.load()
    }

    /// Returns the limits on queued jobs.
    pub fn queue_limits(&self) -> QueueLimits {
        self.queue_limits
    }

    /// Returns why `job` waits, or trials of it, given its trials `open` that have not ended.
    pub fn waits(&self, job: &Job, open: &[Trial]) -> Vec<Waiting> {
        let waiting = self.waiting(job);
        match &job.study {
            Some(study) => self.with_engine(waiting, study, open),
            None => waiting,
        }
    }

    /// Returns the number of jobs ahead of `job` in the queue, if it is queued, and why it waits, or trials of it. Trials that wait in
    /// their engine for the same reason are counted together.
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

    /// Returns why the program of `trial` of `study` has not started; `None` if it has, or does not run under this process.
    pub fn waiting_reason(&self, study: &StudyId, trial: TrialId) -> Option<String> {
        self.services.live.waiting_reason(&TrialKey { study: study.clone(), trial })
    }

    /// Returns what `pick` returns for the jobs of all projects, by ID.
    ///
    /// # Errors
    /// [`JobsError::Store`].
    pub async fn pick<T>(&self, mut pick: impl FnMut(Job) -> Option<T> + Send) -> Result<Vec<T>, JobsError> {
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        let mut picked = Vec::new();
        while let Some(job) = jobs.try_next().await? {
            picked.extend(pick(job));
        }
        Ok(picked)
    }
}
