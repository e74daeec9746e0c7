//! One attempt at a trial: its reports, early stop and slot, until its program ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::classification::Findings;
use super::files::{FILES_TIMEOUT, FileReader};
use super::grants::until;
use super::submit::{show_waiting, waiting_reason};
use super::trial_run::TrialRun;
use super::trial_wait::until_abandoned;
use super::{Control, RunError, until_at_least};
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use tunesmith_domain::{Measurement, Trial, TrialChange, TrialState};
use tunesmith_executor::reports::Reports;
use tunesmith_executor::{ExecutorJobId, ExecutorJobState, StopMode};
use tunesmith_studies::measurements::{self, Deduplication, Report};

/// Polling interval for a running trial's files. Reading unchanged files takes three `stat` calls.
const COLLECT_INTERVAL: Duration = Duration::from_millis(250);
/// Measurements per transaction or read.
const BATCH: usize = 10_000;
/// Maximum polling interval for unknown nodes; agents report within seconds. A guess.
const MAX_NODE_PAUSE: Duration = Duration::from_secs(30);

/// Reason for stops not decided by the rule.
const BY_REQUEST: &str = "a user has stopped it";

pub(super) struct Attempt<'a> {
    pub(super) run: &'a TrialRun,
    pub(super) id: ExecutorJobId,
    pub(super) live: &'a LiveTrial,
    pub(super) trial: Trial,
    pub(super) files: FileReader,
    /// Number of measurements that earlier attempts have made of a trial that goes on: the rule decides after the next one, so that
    /// each attempt makes progress.
    pub(super) earlier: u64,
    /// Whether the program was stopped for an early stop of the trial.
    pub(super) is_stopped: bool,
    pub(super) problems: Vec<String>,
}

impl Attempt<'_> {
    /// Waits for the program's end, starting from `state`, while storing its reports and stopping it on demand. Returns
    /// `None` if the program is left to the next process.
    pub(super) async fn watch(
        &mut self,
        state: &ExecutorJobState,
        adopted: bool,
        asked: Instant,
    ) -> Result<Option<ExecutorJobState>, RunError> {
        let context = Arc::clone(&self.run.context);
        let executor = Arc::clone(&context.services().executor);
        let id = self.id.clone();
        let (run, live) = (self.run, self.live);
        let reach = run.reach(&self.trial, live);
        let changed = reach.changed(&*executor, &id, state.clone());
        tokio::pin!(changed);
        let mut control = context.runner.control.level.clone();
        let mut abandon = self.run.abandon.clone();
        let mut applied = Control::Run;
        let mut abandoned = false;
        // Its stop was requested under an earlier process, or before the program started.
        if self.trial.state == TrialState::Stopping {
            self.is_stopped = true;
            reach.call(|| executor.stop(&id, StopMode::Graceful)).await?;
        }
        let mut overdue = context.engine_deadline(asked);
        let reason = waiting_reason(state);
        let mut waits = reason.is_some();
        show_waiting(&context, self.trial.id, live, reason);
        let mut has_started = !waits;
        let mut tick = tokio::time::interval(COLLECT_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut node_pause, mut node_due) = (COLLECT_INTERVAL, Some(Instant::now()));
        // The first tick completes immediately, before the program can have reported anything.
        tick.tick().await;
        loop {
            let next_control = if applied == Control::Run { Control::Detach } else { Control::Kill };
            tokio::select! {
                biased;
                state = &mut changed => {
                    let state = state?;
                    if !state.is_open() {
                        return Ok(Some(overdue.end(state)));
                    }
                    let reason = waiting_reason(&state);
                    waits = reason.is_some();
                    show_waiting(&context, self.trial.id, live, reason);
                    if !waits && !std::mem::replace(&mut has_started, true) {
                        self.run.emit_started(&self.trial, adopted);
                    }
                    changed.set(reach.changed(&*executor, &id, state));
                }
                () = until(overdue.deadline), if waits && overdue.reason.is_none() => {
                    overdue.reason = Some(context.engine_overdue_reason(self.live.waiting_reason()));
                    reach.call(|| executor.stop(&id, StopMode::Immediate)).await?;
                }
                () = until_at_least(&mut control, next_control), if applied < Control::Kill => {
                    applied = *control.borrow();
                    if applied == Control::Detach {
                        return Ok(None);
                    }
                    let how = if applied == Control::Kill { StopMode::Immediate } else { StopMode::Graceful };
                    executor.stop(&id, how).await?;
                }
                () = until_abandoned(&mut abandon), if !abandoned => {
                    abandoned = true;
                    executor.stop(&id, StopMode::Graceful).await?;
                }
                () = self.live.reported.notified() => self.consider_stopping().await?,
                () = self.live.outdated.notified() => {
                    self.trial = self.read_missing().await?;
                    self.consider_stopping().await?;
                }
                _ = tick.tick(), if !waits && !self.files.is_reading() => {
                    if self.files.has_files() {
                        self.files.start(|reports| reports.poll());
                    }
                    if node_due.is_some_and(|due| due <= Instant::now()) {
                        self.note_nodes().await?;
                        node_due = (!self.knows_nodes()).then(|| Instant::now() + node_pause);
                        node_pause = (node_pause * 2).min(MAX_NODE_PAUSE);
                    }
                }
                measurements = self.files.read(), if self.files.is_reading() => {
                    let measurements = measurements?;
                    self.note_problems().await?;
                    if !measurements.is_empty() {
                        self.record(measurements).await?;
                        self.consider_stopping().await?;
                    }
                }
            }
        }
    }

    /// Stops the program if requested by a user or the early stopping rule.
    async fn consider_stopping(&mut self) -> Result<(), RunError> {
        if self.is_stopped {
            return Ok(());
        }
        let reason = match (self.trial.state, &self.run.stopping) {
            (TrialState::Stopping, _) => BY_REQUEST.to_owned(),
            (TrialState::Active, Some(_)) if self.live.known() <= self.earlier => return Ok(()),
            (TrialState::Active, Some(rule)) => {
                let (folder, curve) = self.live.curve();
                let Some(stop) = rule.decide(self.trial.id, folder.as_deref(), curve) else { return Ok(()) };
                let change = TrialChange::Stop { predicted_final: stop.predicted_final };
                self.trial = self.run.change(self.trial.id, change).await?;
                stop.reason
            }
            _ => return Ok(()),
        };
        self.is_stopped = true;
        self.run.context.emit(JobEvent::TrialStopping { id: self.trial.id, reason });
        let executor = &self.run.context.services().executor;
        Ok(self.run.reach(&self.trial, self.live).call(|| executor.stop(&self.id, StopMode::Graceful)).await?)
    }

    /// Stores the remaining reports of an ended program, and returns the other findings in them.
    pub(super) async fn collect_rest(&mut self) -> Result<Findings, RunError> {
        self.note_nodes().await?;
        // In batches first, to bound the memory for a long curve.
        loop {
            let measurements = self.read_now(|reports| reports.poll()).await?;
            if measurements.is_empty() {
                break;
            }
            self.record(measurements).await?;
        }
        let measurements = self.read_now(|reports| reports.finish()).await?;
        self.record(measurements).await?;
        // HTTP reports, also through other servers, have changed the stored trial.
        self.trial = self.read_missing().await?;
        self.note_folders().await?;
        let mut tags = self.live.http_tags();
        tags.extend(self.files.seen_tags());
        Ok(Findings { tags, problems: std::mem::take(&mut self.problems) })
    }

    /// Whether the nodes of all replicas are recorded.
    fn knows_nodes(&self) -> bool {
        let replicas = self.run.context.plan.replica_count();
        self.trial.places.last().is_some_and(|place| place.attempt == self.trial.attempt && place.is_complete(replicas))
    }

    /// Records new nodes of the attempt, if known to the engine.
    async fn note_nodes(&mut self) -> Result<(), RunError> {
        if self.knows_nodes() {
            return Ok(());
        }
        let place = match self.run.context.services().executor.nodes(&self.id).await {
            Ok(place) => place,
            Err(error) => {
                tracing::debug!(executor.job = %self.id, error = &error as &dyn std::error::Error, "no nodes");
                return Ok(());
            }
        };
        let known = self.trial.places.last().filter(|known| known.attempt == place.attempt);
        if place.nodes.len() > known.map_or(0, |known| known.nodes.len()) {
            self.trial = self.run.change(self.trial.id, TrialChange::Locate(place)).await?;
        }
        Ok(())
    }

    /// Adds measurements stored by other servers to the curve; returns the trial.
    async fn read_missing(&mut self) -> Result<Trial, RunError> {
        let store = &self.run.context.services().store;
        let trial = store.trial(&self.run.study.id, self.trial.id).await?;
        loop {
            let from = self.live.known();
            if from >= trial.measurement_count {
                return Ok(trial);
            }
            let page = store.measurements(&self.run.study.id, trial.id, from, BATCH).await?;
            if page.is_empty() {
                return Ok(trial);
            }
            self.live.complete(from, &page);
        }
    }

    async fn read_now(&mut self, how: fn(&mut dyn Reports) -> Vec<Measurement>) -> Result<Vec<Measurement>, RunError> {
        let measurements = self.files.read_within(FILES_TIMEOUT, how).await;
        self.note_problems().await?;
        measurements
    }

    async fn note_problems(&mut self) -> Result<(), RunError> {
        for problem in self.files.new_problems() {
            self.run.context.note(Some(self.trial.id), &problem).await?;
            self.problems.push(problem);
        }
        Ok(())
    }

    /// Notes metrics that occur in the event files of several folders.
    async fn note_folders(&mut self) -> Result<(), RunError> {
        for (metric, folders) in self.trial.metric_folders.ambiguous() {
            let [taken, others @ ..] = folders else { continue };
            let others: Vec<String> = others.iter().map(|folder| format!("{folder:?}")).collect();
            let notice = format!(
                "event files have {metric:?} in several folders: {taken:?} is taken, and {} not; tunesmith.metricFolder chooses \
                 another one",
                others.join(", ")
            );
            self.run.context.note(Some(self.trial.id), &notice).await?;
        }
        Ok(())
    }

    async fn record(&mut self, measurements: Vec<Measurement>) -> Result<(), RunError> {
        let services = self.run.context.services();
        for batch in measurements.chunks(BATCH) {
            let (attempt, at, deduplication) = (self.trial.attempt, services.clock.now(), Deduplication::None);
            let report = Report { attempt, at, measurements: batch, deduplication };
            let extend = |new: &[Measurement], count| self.live.extend(new, count);
            self.trial =
                measurements::report(&*services.store, &self.run.study.id, self.trial.id, report, extend).await?;
        }
        let tag = &self.run.context.plan.metric_tag;
        let newest = measurements.iter().rev().find_map(|newest| Some((newest, newest.value(tag)?)));
        if let Some((newest, value)) = newest {
            let step = newest.step;
            self.run.context.emit(JobEvent::TrialMeasured { id: self.trial.id, step, value });
        }
        Ok(())
    }
}
