//! One attempt at a trial: its reports, its early stop and its place, until its program has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::classification::Findings;
use super::files::{FILES_TIMEOUT, FileReader};
use super::grants::until;
use super::trial_run::TrialRun;
use super::trial_wait::until_abandoned;
use super::waiting::{until_started, until_waiting};
use super::{Control, RunError, until_at_least};
use crate::JobEvent;
use crate::live_trials::LiveTrial;
use tunesmith_domain::{Measurement, Trial, TrialChange, TrialState};
use tunesmith_executor::reports::Reports;
use tunesmith_executor::{ExecutorJobId, ExecutorJobState, StopMode};

/// Interval between two reads of the files of a running trial. A read of unchanged files takes three `stat` calls.
const COLLECT_INTERVAL: Duration = Duration::from_millis(250);
/// Number of measurements that are written in one transaction, or read at once.
pub(super) const BATCH: usize = 10_000;
/// The longest time between two looks for nodes that are not known: an agent reports within seconds. A guess.
const MAX_NODE_PAUSE: Duration = Duration::from_secs(30);

/// One attempt at a trial.
pub(super) struct Attempt<'a> {
    pub(super) run: &'a TrialRun,
    pub(super) id: ExecutorJobId,
    pub(super) live: &'a LiveTrial,
    pub(super) trial: Trial,
    pub(super) files: FileReader,
    /// Whether the program was stopped because the trial is stopped early.
    pub(super) is_stopped: bool,
    /// What could not be read so far.
    pub(super) problems: Vec<String>,
}

impl Attempt<'_> {
    /// Waits for the end of the program, which is in `state`. Stores its reports, and stops it when required. Returns
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
        let ended = reach.wait(&*executor, &id);
        tokio::pin!(ended);
        let mut control = context.runner.control.level.clone();
        let mut abandon = self.run.abandon.clone();
        let mut applied = Control::Run;
        let mut abandoned = false;
        // It was requested to stop under an earlier process, or before the program started.
        if self.trial.state == TrialState::Stopping {
            self.is_stopped = true;
            reach.call(|| executor.stop(&id, StopMode::Graceful)).await?;
        }
        let mut overdue = context.engine_deadline(asked);
        let mut waits = matches!(state, ExecutorJobState::Waiting { .. });
        let reason = if let ExecutorJobState::Waiting { reason } = state { reason.clone() } else { String::new() };
        let started = until_started(&context, self.trial.id, &id, live, reason);
        tokio::pin!(started);
        let suspected = until_waiting(&context, &id);
        tokio::pin!(suspected);
        let mut has_started = !waits;
        let mut tick = tokio::time::interval(COLLECT_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut node_pause, mut node_due) = (COLLECT_INTERVAL, Some(Instant::now()));
        // The first tick completes at once, before the program can have reported anything.
        tick.tick().await;
        loop {
            let next_control = if applied == Control::Run { Control::Detach } else { Control::Kill };
            tokio::select! {
                biased;
                state = &mut ended => return Ok(Some(overdue.end(state?))),
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
                () = &mut started, if waits => {
                    waits = false;
                    suspected.set(until_waiting(&context, &id));
                    if !std::mem::replace(&mut has_started, true) {
                        self.run.emit_started(&self.trial, adopted);
                    }
                }
                reason = &mut suspected, if !waits => {
                    waits = true;
                    started.set(until_started(&context, self.trial.id, &id, live, reason));
                }
                () = self.live.reported.notified() => self.consider_stopping().await?,
                () = self.live.outdated.notified() => {
                    self.trial = self.read_missing().await?;
                    self.consider_stopping().await?;
                }
                _ = tick.tick(), if !waits && !self.files.is_reading() => {
                    self.files.start(|reports| reports.poll());
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

    /// Stores the remaining reports of an ended program, and returns what else was found in them.
    pub(super) async fn collect_rest(&mut self) -> Result<Findings, RunError> {
        self.note_nodes().await?;
        // In batches first, to limit the memory for a long curve.
        loop {
            let measurements = self.read_now(|reports| reports.poll()).await?;
            if measurements.is_empty() {
                break;
            }
            self.record(measurements).await?;
        }
        let measurements = self.read_now(|reports| reports.finish()).await?;
        self.record(measurements).await?;
        // Reports over HTTP have changed the trial in the store, also through other servers.
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

    /// Records the nodes on which the attempt runs, as far as the engine knows them and the trial lacks them.
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
            self.trial = self.run.change(self.trial.id, TrialChange::Place(place)).await?;
        }
        Ok(())
    }

    /// Adds the measurements to the curve that it lacks, which other servers have stored. Returns the trial.
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

    /// Notes the metrics that event files of several folders have.
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
        for batch in measurements.chunks(BATCH) {
            let at = self.run.context.services().clock.now();
            let change = TrialChange::Report {
                attempt: self.trial.attempt,
                measurements: batch.to_vec(),
                at,
                request_key: None,
            };
            self.trial = self.run.change(self.trial.id, change).await?;
            self.live.extend(batch, self.trial.measurement_count);
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
