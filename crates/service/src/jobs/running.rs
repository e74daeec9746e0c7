//! The running jobs, and the channels to their runs.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::Jobs;
use crate::runner::{LiveCounts, TrialCounts};
use tunesmith_domain::{Job, JobId, JobState};
use tunesmith_store::{Claim, StoreError};

/// What concerns the run of a registered job.
pub(super) struct Registered {
    /// Becomes true when the job is cancelled.
    pub(super) cancelled: watch::Receiver<bool>,
    /// The numbers of trials.
    pub(super) live: LiveCounts,
    /// Whether another server ran the job before.
    pub(super) is_taken_over: bool,
    /// Becomes true when another server has taken the job over.
    pub(super) is_lost: watch::Receiver<bool>,
}

/// The channels to the run of a job.
#[derive(Debug, Clone)]
pub(super) struct RunningJob {
    /// Cancels the job when set to true.
    pub(super) cancel: watch::Sender<bool>,
    counts: watch::Sender<Option<TrialCounts>>,
    /// See [`LiveCounts::ending`].
    pub(super) ending: Arc<tokio::sync::Mutex<()>>,
    /// See [`LiveCounts::added`].
    pub(super) added: Arc<Notify>,
    /// The right of this server to run the job.
    pub(super) claim: Claim,
    /// Set when another server has taken the job over.
    pub(super) is_lost: watch::Sender<bool>,
}

impl RunningJob {
    /// Sends the run the numbers of trials of `job`.
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
    /// Claims a job and enters it into the running ones; `None` if another server runs it.
    ///
    /// # Errors
    /// If the claim cannot be stored.
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
                // It is found again, or another server runs it.
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
        // If the store fails, the run takes the numbers that it reads.
        if let Ok(job) = self.services.store.job(id).await {
            running.set_counts(&job);
            // The job may have been cancelled after it left the queue.
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
