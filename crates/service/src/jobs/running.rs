//! The running jobs, and the channels to their runs.

use std::sync::Arc;

use tokio::sync::watch;

use super::Jobs;
use crate::runner::{LiveCounts, TrialCounts};
use tunesmith_domain::{Job, JobId, JobState};

/// The channels to the run of a job.
#[derive(Debug, Clone)]
pub(super) struct RunningJob {
    /// Cancels the job when set to true.
    pub(super) cancel: watch::Sender<bool>,
    counts: watch::Sender<Option<TrialCounts>>,
    /// See [`LiveCounts::ending`].
    pub(super) ending: Arc<tokio::sync::Mutex<()>>,
}

impl RunningJob {
    /// Sends the run the numbers of trials of `job`.
    pub(super) fn set_counts(&self, job: &Job) {
        if let Ok(plan) = &job.plan {
            self.counts.send_replace(Some(plan.into()));
        }
    }
}

impl Jobs {
    /// Enters a job into the running ones. The returned flag becomes true when the job is cancelled.
    pub(super) async fn register(&self, id: &JobId) -> (watch::Receiver<bool>, LiveCounts) {
        let _admission = self.admission.lock().await;
        let (cancel, cancelled) = watch::channel(false);
        let (counts, live) = watch::channel(None);
        let running = RunningJob { cancel, counts, ending: Arc::default() };
        let live = LiveCounts { counts: live, ending: Arc::clone(&running.ending) };
        self.state().running.insert(id.clone(), running.clone());
        // If the store fails, the run takes the numbers that it reads.
        if let Ok(job) = self.services.store.job(id).await {
            running.set_counts(&job);
            // The job may have been cancelled after it left the queue.
            if job.state == JobState::Cancelling {
                running.cancel.send_replace(true);
            }
        }
        (cancelled, live)
    }

    pub(super) fn unregister(&self, id: &JobId) {
        self.state().running.remove(id);
        self.ended.notify_waiters();
    }
}
