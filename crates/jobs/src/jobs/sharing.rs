//! Job sharing between servers on one store: ownership and change discovery.
//!
//! A server claims a job before running it and renews the claim meanwhile. When it dies, its claims expire and other
//! servers continue its jobs. The protocol is the same for a single server, which owns every job.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::sync::broadcast::error::RecvError;

use super::running::RunningJob;
use super::{Jobs, JobsError};
use crate::live_trials::TrialKey;
use crate::runner::{Control, JobServices, LatestAttempt, stop_superseded};
use tunesmith_domain::{Job, JobId, JobState};
use tunesmith_store::{Claim, JobOwner, Notice, OptionalExtension, Renewal, StoreError, pages};

impl Jobs {
    /// Queues `job` and notifies the other servers.
    pub(super) async fn enqueue(&self, job: Job) -> Result<Job, JobsError> {
        self.push(&job)?;
        self.changed.notify_one();
        self.services.claims.announce().await;
        Ok(job)
    }

    /// Current or last server of the job; `None` in single-server mode.
    pub async fn owner(&self, id: &JobId) -> Result<Option<JobOwner>, JobsError> {
        Ok(self.services.claims.owner(id).await?)
    }

    /// Renews the claims of running jobs, and discovers jobs queued, cancelled or abandoned by other servers. Never
    /// completes.
    pub(super) async fn share(&self) {
        let claims = &self.services.claims;
        let Some(interval) = claims.interval() else { return std::future::pending().await };
        let (mut announcements, mut notices) = (claims.announcements(), claims.notices());
        let mut renewals = tokio::time::interval(interval);
        renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = renewals.tick() => self.services.live.note_all_measured(),
                Ok(()) = announcements.changed() => {}
                notice = notices.recv() => match notice {
                    Ok(Notice::Measured(study, trial)) => {
                        self.services.live.note_changed(&TrialKey { study, trial });
                        continue;
                    }
                    Ok(Notice::TrialEnded) => {
                        if let Err(error) = self.services.pool.renew_if_limited().await {
                            let error = &error as &dyn std::error::Error;
                            tracing::warn!(error, "the running trials of other servers could not be read");
                        }
                        continue;
                    }
                    Ok(Notice::Missed) | Err(RecvError::Lagged(_)) => {
                        self.services.live.note_all_measured();
                        continue;
                    }
                    // Single-server mode.
                    Err(RecvError::Closed) => return std::future::pending().await,
                },
            }
            // Independent steps: each runs even if another fails.
            note_failure("the claims of jobs could not be renewed", self.renew_claims().await);
            note_failure("the running trials could not be renewed", self.services.pool.renew().await);
            note_failure("jobs of other servers could not be looked for", self.discover_jobs().await);
            note_failure("the folders of deleted jobs could not be removed", self.remove_deleted().await);
        }
    }

    async fn renew_claims(&self) -> Result<(), StoreError> {
        let claims: Vec<Claim> = self.state().running.values().map(|running| running.claim.clone()).collect();
        if claims.is_empty() {
            return Ok(());
        }
        let renewals = self.services.claims.renew(&claims).await?;
        let kept = self.note_renewals(renewals, claims);
        for running in kept {
            // Trial counts may have changed, or trials been added, through another server. If it deleted the job, the
            // run ends.
            if let Some(job) = self.services.store.job(&running.claim.job).await.optional()? {
                running.set_counts(&job);
                running.added.notify_one();
            }
        }
        Ok(())
    }

    /// Passes the `renewals` of `claims` to the runs, and returns those that continue.
    fn note_renewals(&self, renewals: Vec<Renewal>, claims: Vec<Claim>) -> Vec<RunningJob> {
        let state = self.state();
        let mut kept = Vec::new();
        for (Renewal { job, state: job_state }, claim) in renewals.into_iter().zip(claims) {
            let Some(running) = state.running.get(&job).filter(|running| running.claim == claim) else { continue };
            match job_state {
                Some(JobState::Cancelling) => {
                    running.cancel.send_replace(true);
                }
                Some(_) => kept.push(running.clone()),
                None => {
                    tracing::warn!(job.id = %job, "another server has taken the job over");
                    running.is_lost.send_replace(true);
                }
            }
        }
        kept
    }

    /// Queues unfinished jobs that no other server runs, and dequeues those that one does.
    pub(super) async fn discover_jobs(&self) -> Result<(), StoreError> {
        let available: HashSet<JobId> = self.services.claims.available().await?.into_iter().collect();
        let unknown: Vec<JobId> = {
            let mut state = self.state();
            state.queue.retain(|id| available.contains(id));
            let is_known = |id: &&JobId| state.is_started(id) || state.queue.position(id).is_some();
            available.iter().filter(|id| !is_known(id)).cloned().collect()
        };
        for id in unknown {
            let job = self.services.store.job(&id).await.optional()?;
            let Some(job) = job.filter(|job| !job.state.is_final()) else { continue };
            let (slot, now) = (self.slot_kind(&job), self.moment());
            let mut state = self.state();
            if state.is_started(&id) {
                continue;
            }
            match job.plan() {
                _ if job.state == JobState::Cancelling => state.queue.push_front(&job, slot),
                Ok(plan) => state.queue.push(&job, plan, slot, now, self.services.pool.queue_deadline()),
                Err(error) => tracing::error!(job.id = %job.id, error = %error, "a job cannot be resumed"),
            }
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Removes the folders of jobs deleted through other servers.
    pub(super) async fn remove_deleted(&self) -> Result<(), StoreError> {
        if self.services.claims.deleted().await?.is_empty() {
            return Ok(());
        }
        // Keeps jobs with these names from starting meanwhile.
        let _admission = self.admission.lock().await;
        for id in self.services.claims.deleted().await? {
            // A run that lost its job first ends its programs.
            if !self.state().is_started(&id) {
                self.remove_deleted_folder(&id).await?;
            }
        }
        Ok(())
    }

    /// Removes the deleted job's folder; if false, it is left for a later attempt.
    pub(super) async fn remove_deleted_folder(&self, id: &JobId) -> Result<bool, StoreError> {
        match self.remove_folder(id).await {
            Ok(()) => {
                tracing::info!(job.id = %id, "removed the folder of a job that was deleted through another server");
                self.services.claims.removed(id).await?;
                Ok(true)
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(job.id = %id, error, "the folder of a deleted job cannot be removed; it is tried again");
                Ok(false)
            }
        }
    }

    /// Unregisters a job. Another server may continue it, unless `control` left its programs running for the next
    /// process on this machine.
    pub(super) async fn release(&self, id: &JobId, control: Control) {
        let claim = self.state().running.get(id).map(|running| running.claim.clone());
        self.unregister(id);
        let Some(claim) = claim.filter(|_| control != Control::Detach) else { return };
        if let Err(error) = self.services.claims.release(&claim).await {
            tracing::warn!(job.id = %id, error = &error as &dyn std::error::Error, "a claim ends with its lease");
            return;
        }
        self.services.claims.announce().await;
    }

    /// Releases the claims of jobs in back-off.
    pub(super) async fn release_claims(&self, control: Control) {
        let waiting: Vec<JobId> = self.state().running.keys().cloned().collect();
        for id in waiting {
            self.release(&id, control).await;
        }
    }

    pub(super) fn is_lost(&self, id: &JobId) -> bool {
        self.state().running.get(id).is_some_and(|running| *running.is_lost.borrow())
    }

    pub(super) fn lose(&self, id: &JobId) {
        if let Some(running) = self.state().running.get(id) {
            running.is_lost.send_replace(true);
        }
    }

    /// Kills this machine's programs of a job that another server runs or has since run.
    pub(super) async fn stop_superseded(&self, id: &JobId, latest: LatestAttempt) {
        let stopped = async {
            let job = self.services.store.job(id).await?;
            stop_superseded(&self.services, &job, latest).await
        };
        if let Err(error) = stopped.await.optional() {
            let error = &error as &dyn std::error::Error;
            tracing::error!(job.id = %id, error, "programs of a job of another server may still run");
        }
    }

    /// Kills programs left by an earlier process of this server, if other servers have since run their jobs.
    pub async fn stop_jobs_of_other_servers(&self) -> Result<(), JobsError> {
        if self.services.claims.interval().is_none() {
            return Ok(());
        }
        let mut jobs = pin!(pages::jobs(&*self.services.store, None));
        while let Some(job) = jobs.try_next().await? {
            // Without a folder, this server never ran it.
            if (self.services.directory)(&job.id).is_dir()
                && self.services.claims.owner(&job.id).await?.is_some_and(|owner| !owner.is_self)
            {
                // No trials are found if the owner deleted it meanwhile.
                stop_superseded(&self.services, &job, LatestAttempt::Killed).await.optional()?;
            }
        }
        Ok(())
    }

    /// Services for a run of the job, with changes conditional on its claim.
    pub(super) fn services_of(&self, id: &JobId) -> Arc<JobServices> {
        let claim = self.state().running.get(id).map(|running| running.claim.clone());
        match claim.filter(|_| self.services.claims.interval().is_some()) {
            Some(claim) => {
                let store = self.services.claims.store_of(&claim);
                Arc::new(JobServices { store, ..JobServices::clone(&self.services) })
            }
            None => Arc::clone(&self.services),
        }
    }

    /// Claims the job for a change that must not overlap with a run.
    pub(super) async fn claim_for(&self, id: &JobId, change: &'static str) -> Result<Claim, JobsError> {
        let claim = self.services.claims.claim(id).await?;
        claim.ok_or_else(|| JobsError::Running { id: id.clone(), change })
    }
}

/// Logs a failure of periodic work.
fn note_failure(what: &str, done: Result<(), StoreError>) {
    if let Err(error) = done {
        tracing::warn!(error = &error as &dyn std::error::Error, "{what}; it is tried again");
    }
}
