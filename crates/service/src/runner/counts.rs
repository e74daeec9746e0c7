//! The numbers of trials of a job that may change while it runs.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, watch};

use tunesmith_domain::JobPlan;

/// The numbers of trials of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialCounts {
    /// In all.
    pub(crate) max_trials: u64,
    /// At once.
    pub(crate) max_parallel_trials: u64,
}

impl From<&JobPlan> for TrialCounts {
    fn from(plan: &JobPlan) -> Self {
        Self { max_trials: plan.max_trials, max_parallel_trials: plan.max_parallel_trials }
    }
}

/// The view of a run on the numbers of its job.
#[derive(Debug, Clone)]
pub(crate) struct LiveCounts {
    /// The numbers as they are stored; `None` before they were read.
    pub(crate) counts: watch::Receiver<Option<TrialCounts>>,
    /// Held while the numbers change or a user adds a trial, and while the run ends its job, so that no change is made to a job that has just
    /// ended without it.
    pub(crate) ending: Arc<Mutex<()>>,
    /// Notified when a user may have added trials.
    pub(crate) added: Arc<Notify>,
}
