//! The task that exports one job to one destination.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tunesmith_domain::JobId;

use super::state::{Failing, Stored};
use super::{Shared, TrackingState};
use crate::destination::Destination;
use crate::mlflow::{MlflowRuns, RunIds};
use crate::synchronization::{Pass, Synchronization};
use crate::tensorboard::EventFiles;

/// Interval between looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Maximum time between two records of the progress, by which other servers see that this one lives.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

/// Parent run of a destination, if it has runs.
pub(super) trait ParentRun {
    fn parent_run(&self) -> Option<&str>;
}

impl ParentRun for MlflowRuns {
    fn parent_run(&self) -> Option<&str> {
        self.parent()
    }
}

impl ParentRun for EventFiles {
    fn parent_run(&self) -> Option<&str> {
        None
    }
}

pub(super) struct Follower<D> {
    pub(super) job: JobId,
    pub(super) synchronization: Synchronization<D>,
    /// Record of the progress, and IDs of runs for programs; `None` for files, which are compared instead.
    pub(super) record: Option<(Record, Arc<RunIds>)>,
    pub(super) progress: Arc<Progress>,
}

/// Why a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    /// Another server exports the job.
    TakenOver,
    /// The destination is not allowed.
    Refused(String),
}

impl<D: Destination + ParentRun> Follower<D> {
    /// Exports the job until it has ended and everything is sent, or another server exports it.
    pub(super) async fn run(mut self) {
        let mut pause = INTERVAL;
        if let Some((record, _)) = &mut self.record
            && !record.save().await
        {
            return self.progress.end(Ended::TakenOver);
        }
        loop {
            self.progress.begin();
            let passed = self.synchronization.pass().await;
            let error = passed.as_ref().err().map(crate::TrackingError::text);
            self.report(error.as_deref());
            let is_complete = passed.as_ref().is_ok_and(|pass| pass.is_complete);
            if let Some((record, ids)) = &mut self.record {
                ids.note_pass(error.is_none());
                match (&passed, &error) {
                    (Ok(pass), _) => record.note(*pass, self.synchronization.destination().parent_run()),
                    (_, Some(error)) => record.note_failure(error),
                    (Err(_), None) => {}
                }
                self.progress.set_state(record.state());
                if record.is_due() && !record.save().await {
                    tracing::info!(job.id = %self.job, "another server exports the job");
                    return self.progress.end(Ended::TakenOver);
                }
            }
            self.progress.note(error.clone());
            if is_complete {
                return self.progress.end(Ended::Complete);
            }
            pause = if error.is_some() { (pause * 2).min(MAX_PAUSE) } else { INTERVAL };
            self.progress.pause(pause).await;
        }
    }

    /// Logs the first of consecutive failures, and their end.
    fn report(&self, error: Option<&str>) {
        match (error, self.progress.is_failing()) {
            (Some(error), false) => {
                tracing::warn!(job.id = %self.job, error, "the export of a job is interrupted; it is tried again");
            }
            (None, true) => tracing::info!(job.id = %self.job, "the export of a job continues"),
            _ => {}
        }
    }
}

/// Progress of a task, for those who wait for it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    woken: Notify,
    /// As `woken`, even while passes fail.
    forced: Notify,
    passes: watch::Sender<Passes>,
    state: Mutex<Option<TrackingState>>,
}

#[derive(Debug, Clone, Default)]
struct Passes {
    started: u64,
    /// Error of the last pass.
    error: Option<String>,
    /// Number of the last pass that ended.
    done: u64,
    ended: Option<Ended>,
}

impl Progress {
    /// Starts the next pass immediately.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    async fn pause(&self, pause: Duration) {
        // A limit also where wake-ups follow each other: a server that fails is not asked at the pace of trials.
        let is_failing = self.is_failing();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.woken.notified(), if !is_failing => {}
            () = self.forced.notified() => {}
        }
    }

    fn begin(&self) {
        self.passes.send_modify(|passes| passes.started += 1);
    }

    fn note(&self, error: Option<String>) {
        self.passes.send_modify(|passes| (passes.done, passes.error) = (passes.started, error));
    }

    pub(super) fn end(&self, ended: Ended) {
        self.passes.send_modify(|passes| passes.ended = Some(ended));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.passes.borrow().ended.is_some()
    }

    /// Whether nothing is left to do in this process.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.passes.borrow().ended, Some(Ended::Complete | Ended::TakenOver))
    }

    fn is_failing(&self) -> bool {
        self.passes.borrow().error.is_some()
    }

    pub(super) fn set_state(&self, state: &TrackingState) {
        *self.state.lock() = Some(state.clone());
    }

    pub(super) fn state(&self) -> Option<TrackingState> {
        self.state.lock().clone()
    }

    /// Waits until the export is complete, or without `has_ended` for one pass.
    ///
    /// # Errors
    /// The error of a pass that began after the call.
    pub(super) async fn finish(&self, has_ended: bool) -> Result<(), String> {
        let started = self.passes.borrow().started;
        self.forced.notify_one();
        let mut passes = self.passes.subscribe();
        let is_over = |passes: &Passes| {
            passes.ended.is_some() || (passes.done > started && (passes.error.is_some() || !has_ended))
        };
        match passes.wait_for(is_over).await.map(|passes| (passes.ended.clone(), passes.error.clone())) {
            Ok((Some(Ended::Refused(error)), _)) => Err(error),
            Ok((Some(Ended::Complete | Ended::TakenOver), _) | (None, None)) => Ok(()),
            Ok((None, Some(error))) => Err(error),
            Err(_) => Err("the export ended unexpectedly".to_owned()),
        }
    }
}

/// State of an export, with its stored form.
pub(super) struct Record {
    shared: Arc<Shared>,
    job: JobId,
    state: TrackingState,
    stored: Option<Stored>,
    saved: Instant,
    is_urgent: bool,
}

impl Record {
    pub(super) fn new(shared: Arc<Shared>, job: JobId, state: TrackingState, stored: Option<Stored>) -> Self {
        Self { shared, job, state, stored, saved: Instant::now(), is_urgent: true }
    }

    pub(super) fn state(&self) -> &TrackingState {
        &self.state
    }

    fn note(&mut self, pass: Pass, run: Option<&str>) {
        let run = run.map(str::to_owned);
        self.is_urgent |= self.state.failing.is_some() || self.state.run != run || pass.is_complete;
        self.state.run = run;
        self.state.study_revision = pass.study_revision;
        self.state.is_complete = pass.is_complete;
        self.state.last_success = Some((self.shared.now)());
        self.state.failing = None;
    }

    pub(super) fn note_failure(&mut self, error: &str) {
        let known = self.state.failing.take();
        self.is_urgent |= known.as_ref().is_none_or(|known| known.error != error);
        let since = known.map_or_else(|| (self.shared.now)(), |known| known.since);
        self.state.failing = Some(Failing { since, error: error.to_owned() });
    }

    fn is_due(&self) -> bool {
        self.is_urgent || self.saved.elapsed() >= RECORD_INTERVAL
    }

    /// Stores the state; false if another server exports the job now.
    pub(super) async fn save(&mut self) -> bool {
        let (saved, is_urgent) = (Instant::now(), self.is_urgent);
        match self.save_once().await {
            Ok(is_ours) => {
                (self.saved, self.is_urgent) = (saved, false);
                is_ours
            }
            Err(error) => {
                self.is_urgent = is_urgent;
                tracing::warn!(job.id = %self.job, error = %error, "the progress of an export could not be stored");
                true
            }
        }
    }

    async fn save_once(&mut self) -> Result<bool, tunesmith_store::StoreError> {
        let owner = self.shared.claims.owner(&self.job).await?;
        if owner.as_ref().is_some_and(|owner| owner.is_current && !owner.is_self) {
            return Ok(false);
        }
        let replace = |stored| self.shared.states.replace(&self.job, stored, self.state.clone());
        if let Some(stored) = replace(self.stored.as_ref()).await? {
            self.stored = Some(stored);
            return Ok(true);
        }
        // Another server has written meanwhile. The owner of the job takes over.
        let is_owner = owner.is_some_and(|owner| owner.is_current && owner.is_self);
        let found = self.shared.states.get(&self.job).await?;
        let is_ours = found.as_ref().is_none_or(|found| found.state.exporter == self.state.exporter);
        if !is_owner && !is_ours {
            return Ok(false);
        }
        self.stored = replace(found.as_ref()).await?;
        Ok(self.stored.is_some())
    }
}
