//! Running jobs, and the channels to their runs.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::Jobs;
use crate::runner::{LiveCounts, TrialCounts};
use tunesmith_domain::{Job, JobId, JobState};
use tunesmith_store::{Claim, StoreError};

/// Inputs for the run of a registered job.
pub(super) struct Registered {
    /// True once the job is cancelled.
    pub(super) cancelled: watch::Receiver<bool>,
    pub(super) live: LiveCounts,
    /// Whether another server ran the job before.
    pub(super) is_taken_over: bool,
    /// True once another server has taken the job over.
    pub(super) is_lost: watch::Receiver<bool>,
}

#[derive(Debug, Clone)]
pub(super) struct RunningJob {
    pub(super) cancel: watch::Sender<bool>,
    counts: watch::Sender<Option<TrialCounts>>,
    pub(super) ending: Arc<tokio::sync::Mutex<()>>,
    pub(super) added: Arc<Notify>,
    pub(super) claim: Claim,
    /// Set when another server has taken the job over.
    pub(super) is_lost: watch::Sender<bool>,
}

impl RunningJob {
    /// Sends the trial counts of `job` to its run.
    pub(super) fn set_counts(&self, job: &Job) {
        if let Ok(plan) = &job.plan {
            let new = Some(plan.into());
            self.counts.send_if_modified(|known| {
                let is_new = *known != new;
                *known = new;
                is_new
            });
        }
    }
}

impl Jobs {
    /// Claims and registers a job; `None` if another server runs it.
    pub(super) async fn register(&self, id: &JobId) -> Result<Option<Registered>, StoreError> {
        let _admission = self.admission.lock().await;
        let claimed = self.services.claims.claim(id).await;
        let Ok(Some(claim)) = claimed else {
            self.state().starting.remove(id);
            return claimed.map(|_| None);
        };
        let is_taken_over = claim.is_taken_over;
        if claim.has_old_folder {
            let removed = self.remove_deleted_folder(id).await;
            if !matches!(removed, Ok(true)) {
                // It will be rediscovered, or another server runs it.
                self.state().starting.remove(id);
                self.services.claims.release(&claim).await?;
                return removed.map(|_| None);
            }
        }
        let ((cancel, cancelled), (is_lost, lost)) = (watch::channel(false), watch::channel(false));
        let (counts, live) = watch::channel(None);
        let running = RunningJob { cancel, counts, ending: Arc::default(), added: Arc::default(), claim, is_lost };
        let live = LiveCounts { counts: live, ending: Arc::clone(&running.ending), added: Arc::clone(&running.added) };
        {
            let mut state = self.state();
            state.starting.remove(id);
            state.running.insert(id.clone(), running.clone());
        }
        // If the store fails, the run uses the counts it reads itself.
        if let Ok(job) = self.services.store.job(id).await {
            running.set_counts(&job);
            self.services.tracking.start(&job);
            // It may have been cancelled after leaving the queue.
            if job.state == JobState::Cancelling {
                running.cancel.send_replace(true);
            }
        }
        Ok(Some(Registered { cancelled, live, is_taken_over, is_lost: lost }))
    }

    pub(super) fn unregister(&self, id: &JobId) {
        {
            let mut state = self.state();
            state.running.remove(id);
            state.retry_reasons.remove(id);
        }
        self.ended.notify_waiters();
    }
}
