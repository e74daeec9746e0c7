//! Cancellation of jobs.

use super::{CANCELLED_BY_USER, Jobs, JobsError, wrong_state};
use tunesmith_domain::{Job, JobChange, JobId, JobState};

impl Jobs {
    /// Cancels a job: immediately if it never ran, otherwise once its programs have ended. Works even for a job with
    /// unusable files or an unreadable plan.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](tunesmith_store::StoreError::NotFound);
    /// [`StoreError::Refused`](tunesmith_store::StoreError::Refused) in a final state.
    pub async fn cancel(&self, id: &JobId) -> Result<(), JobsError> {
        let job = self.unfinished(id).await?;
        // A job that ran before may have running programs; resuming it stops them.
        if job.start_time.is_some() || !self.cancel_waiting(id).await? {
            self.become_cancelled(&job, JobState::Cancelling).await?;
            self.stop_run(&job);
        }
        self.services.claims.announce().await;
        Ok(())
    }

    /// Cancels a job that never ran and that no server runs; returns whether it did.
    async fn cancel_waiting(&self, id: &JobId) -> Result<bool, JobsError> {
        // Keeps this server from starting a run meanwhile.
        let _admission = self.admission.lock().await;
        {
            let mut state = self.state();
            if state.is_started(id) {
                return Ok(false);
            }
            state.queue.remove(id);
        }
        // The job may be missing from this server's queue if it has not noticed it yet.
        let Some(claim) = self.services.claims.claim(id).await? else { return Ok(false) };
        let cancelled = async {
            // Another server may have run it before the claim.
            let job = self.unfinished(id).await?;
            let is_waiting = job.start_time.is_none();
            if is_waiting {
                self.become_cancelled(&job, JobState::Cancelled).await?;
            }
            Ok(is_waiting)
        };
        let cancelled = cancelled.await;
        self.services.claims.release(&claim).await?;
        cancelled
    }

    /// Reads the job, which must not be in a final state.
    async fn unfinished(&self, id: &JobId) -> Result<Job, JobsError> {
        let job = self.services.store.job(id).await?;
        if job.state.is_final() {
            return Err(wrong_state(&job, "cancel"));
        }
        Ok(job)
    }

    async fn become_cancelled(&self, job: &Job, state: JobState) -> Result<(), JobsError> {
        let at = self.services.clock.now();
        let change = JobChange::Become { state, error_message: CANCELLED_BY_USER.to_owned(), at };
        self.services.store.change_job(&job.id, change).await?;
        Ok(())
    }

    /// Stops the run of `job` in this process, or starts one that stops its programs.
    fn stop_run(&self, job: &Job) {
        let mut state = self.state();
        state.queue.move_to_front(job);
        if let Some(running) = state.running.get(&job.id) {
            running.cancel.send_replace(true);
        } else if job.plan().is_err() && !state.is_started(&job.id) && state.queue.position(&job.id).is_none() {
            // Jobs with unreadable plans are not queued.
            state.queue.push_front(job, self.slot_kind(job));
            self.changed.notify_one();
        }
    }
}
