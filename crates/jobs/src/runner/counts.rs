//! Trial counts of a job, adjustable while it runs.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, watch};

use tunesmith_domain::JobPlan;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialCounts {
    /// Total.
    pub(crate) max_trials: u64,
    /// Concurrent.
    pub(crate) max_parallel_trials: u64,
}

impl From<&JobPlan> for TrialCounts {
    fn from(plan: &JobPlan) -> Self {
        Self { max_trials: plan.max_trials, max_parallel_trials: plan.max_parallel_trials }
    }
}

/// A run's view of the counts.
#[derive(Debug, Clone)]
pub(crate) struct LiveCounts {
    /// Stored counts; `None` before the first read.
    pub(crate) counts: watch::Receiver<Option<TrialCounts>>,
    /// Held while counts change, a user adds a trial, or the run ends its job, so that a job cannot end without
    /// noticing a concurrent change.
    pub(crate) ending: Arc<Mutex<()>>,
    /// Signals that a user may have added trials.
    pub(crate) added: Arc<Notify>,
}
