//! The cancellation of jobs.

use super::{CANCELLED_BY_USER, Jobs, JobsError};
use tunesmith_domain::{Job, JobChange, JobId, JobState, TransitionError};
use tunesmith_store::StoreError;

impl Jobs {
    /// Cancels a job: at once if it has never run, otherwise as soon as its programs have ended. It ends also if its
    /// files or its plan cannot be used.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if it is in a final state.
    pub async fn cancel(&self, id: &JobId) -> Result<(), JobsError> {
        let job = self.unfinished(id).await?;
        // A job that has run before may have running programs: it is resumed to stop them.
        if job.start_time.is_some() || !self.cancel_waiting(id).await? {
            self.become_cancelled(&job, JobState::Cancelling).await?;
            self.stop_run(&job);
        }
        self.services.claims.announce().await;
        Ok(())
    }

    /// Cancels a job that has never run and that no server runs. Returns whether it was one.
    async fn cancel_waiting(&self, id: &JobId) -> Result<bool, JobsError> {
        // No run of this server starts meanwhile.
        let _admission = self.admission.lock().await;
        {
            let mut state = self.state();
            if state.is_started(id) {
                return Ok(false);
            }
            state.queue.remove(id);
        }
        // It need not be in the queue of this server, which may not have noticed it yet.
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

    /// Returns the job `id`, which must not be in a final state.
    async fn unfinished(&self, id: &JobId) -> Result<Job, JobsError> {
        let job = self.services.store.job(id).await?;
        if job.state.is_final() {
            return Err(StoreError::Refused(TransitionError::WrongState {
                resource: format!("job {id}"),
                state: job.state.to_string(),
                change: "cancel",
            })
            .into());
        }
        Ok(job)
    }

    async fn become_cancelled(&self, job: &Job, state: JobState) -> Result<(), JobsError> {
        let at = self.services.clock.now();
        let change = JobChange::Become { state, error_message: CANCELLED_BY_USER.to_owned(), at };
        self.services.store.change_job(&job.id, change).await?;
        Ok(())
    }

    /// Ends the run of `job` in this process, or starts one that stops its programs.
    fn stop_run(&self, job: &Job) {
        let mut state = self.state();
        state.queue.move_to_front(job);
        if let Some(running) = state.running.get(&job.id) {
            running.cancel.send_replace(true);
        } else if job.plan().is_err() && !state.is_started(&job.id) && state.queue.position(&job.id).is_none() {
            // It was not queued, because its plan cannot be read.
            state.queue.push_front(job, self.slot_kind(job));
            self.changed.notify_one();
        }
    }
}
