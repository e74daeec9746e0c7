//! One run of a queued job, and its aftermath.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::Jobs;
use super::handling::{self, Handling};
use super::retries::Retry;
use super::running::Registered;
use super::suspects::Start;
use crate::runner::{Control, LatestAttempt, RunControl, RunSettings, until_true};
use tunesmith_domain::JobId;
use tunesmith_store::StoreError;

impl Jobs {
    /// Runs a queued job once. Returns a retry after a failure.
    pub(super) async fn run_queued(
        self: Arc<Self>,
        id: JobId,
        start: Start,
        endpoint: String,
        control: watch::Receiver<Control>,
    ) -> Option<Retry> {
        let retry = self.run_started(&id, start, endpoint, control).await;
        self.end_probation(&id);
        retry
    }

    async fn run_started(
        &self,
        id: &JobId,
        start: Start,
        endpoint: String,
        control: watch::Receiver<Control>,
    ) -> Option<Retry> {
        if self.is_over(id).await {
            self.state().starting.remove(id);
            return None;
        }
        let registered = match self.register(id).await {
            Ok(Some(registered)) => registered,
            // Another server runs it.
            Ok(None) => return None,
            Err(error) => {
                // Rediscovered once the store responds.
                tracing::error!(job.id = %id, error = &error as &dyn std::error::Error, "a job could not be claimed");
                return None;
            }
        };
        let Registered { cancelled, live, is_taken_over, mut is_lost } = registered;
        if is_taken_over {
            self.stop_superseded(id, LatestAttempt::Spared).await;
        }
        let handling = Handling::begin(&(self.services.directory)(id), start.phase, start.record).await;
        let failure = if let Some(record) = start.blamed() {
            match handling::set_aside(self, id, record).await {
                Ok(()) => None,
                Err(error) => {
                    // Preserves the record that sets it aside later.
                    handling.keep();
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(job.id = %id, error, "a job could not be set aside");
                    Some(self.last_pause())
                }
            }
        } else {
            let (events, emitted) = mpsc::unbounded_channel();
            let settings = RunSettings { endpoint, parallel: None, events: Some(events) };
            let (level, own_level) = watch::channel(*control.borrow());
            let run_control = RunControl { level: own_level, cancelled: cancelled.clone(), live, is_taken_over };
            let run = self.run_once(id, &settings, run_control);
            let mut run = pin!(handling.during(emitted, start.probation, || self.end_probation(id), run));
            let mut control = control.clone();
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = &mut run => break outcome,
                    Ok(()) = control.changed() => {
                        let now = *control.borrow();
                        level.send_replace(now);
                    }
                    // Its programs are ended below.
                    () = until_true(&mut is_lost), if *level.borrow() < Control::Detach => {
                        level.send_replace(Control::Detach);
                    }
                }
            };
            self.pause_after(id, outcome)
        };
        if *is_lost.borrow() || self.is_lost(id) {
            self.unregister(id);
            self.stop_superseded(id, LatestAttempt::Killed).await;
            return None;
        }
        match failure {
            Some(pause) => Some(Retry { id: id.clone(), pause, cancelled }),
            None => {
                let level = *control.borrow();
                self.release(id, level).await;
                None
            }
        }
    }

    /// Whether the job has ended or was deleted while queued; another server may have run it.
    async fn is_over(&self, id: &JobId) -> bool {
        match self.services.store.job(id).await {
            Ok(job) => job.state.is_final(),
            Err(StoreError::NotFound { .. }) => true,
            // The claim will fail too.
            Err(_) => false,
        }
    }
}
