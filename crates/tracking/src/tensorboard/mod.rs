//! TensorBoard: a folder for a job or study, with a run folder for each attempt of a trial.
//!
//! All files end with `.tunesmith`; others are left alone. The plug-in keeps the first end of a session for ever, so it is
//! written when the trial has ended, and another attempt is another session of the same group.

mod events;
mod file;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::{Measurement, ReportKey, Study, Trial, TrialState};

use self::events::EventBytes;
use self::messages::SessionStatus;
use crate::TrackingError;
use crate::destination::{Destination, Finish, View, seconds};
use crate::results::Results;

/// Measurements read together.
const PAGE: usize = 10_000;

/// Event files of one job or study.
pub struct EventFiles {
    folder: PathBuf,
    has_experiment: bool,
    trials: BTreeMap<TrialId, Written>,
}

/// Progress of an unfinished trial in its event file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    attempt: u64,
    /// Measurements in the file of the attempt, or those of earlier ones.
    measurements: u64,
    /// Length of the file.
    length: u64,
}

impl EventFiles {
    /// Files below `root`, in a folder with the name of the job or study `name`.
    pub fn new(root: impl Into<PathBuf>, name: &str) -> Self {
        Self { folder: root.into().join(name), has_experiment: false, trials: BTreeMap::new() }
    }

    fn path(&self, trial: &Trial, attempt: u64) -> PathBuf {
        let run = if attempt <= 1 { trial.id.to_string() } else { format!("{}-{attempt}", trial.id) };
        self.folder.join(run).join(format!("events.out.tfevents.{}.{attempt}.tunesmith", trial.id))
    }

    async fn put_trial(&mut self, view: &View<'_>, study: &Study, trial: &Trial) -> Result<(), TrackingError> {
        let has_started = trial.attempt > 0 && trial.start_time.is_some() || trial.state.is_final();
        if !has_started || trial.state == TrialState::Deleted {
            return Ok(());
        }
        if self.append_to(view, study, trial).await? {
            return Ok(());
        }
        self.write_whole(view, study, trial).await
    }

    /// Appends the new measurements to the file of the current attempt. Returns whether that was possible: not after a
    /// restart, or for another attempt.
    async fn append_to(&mut self, view: &View<'_>, study: &Study, trial: &Trial) -> Result<bool, TrackingError> {
        let attempt = trial.attempt.max(1);
        let Some(mut written) = self.trials.get(&trial.id).cloned().filter(|written| written.attempt == attempt) else {
            return Ok(false);
        };
        let mut bytes = EventBytes(Vec::new());
        loop {
            let (measurements, next) = view.measurements(study, trial, written.measurements, PAGE).await?;
            if next == written.measurements {
                break;
            }
            if measurements.iter().any(|measurement| attempt_of(trial, measurement) != attempt) {
                return Ok(false);
            }
            measurements.iter().for_each(|measurement| bytes.add_measurement(trial, measurement));
            written.measurements = next;
        }
        add_end(&mut bytes, trial);
        let (path, length) = (self.path(trial, attempt), written.length);
        written.length += bytes.0.len() as u64;
        let appended = blocking(move || (path.clone(), file::append(&path, length, &bytes.0))).await;
        if let Err(error) = appended {
            tracing::debug!(trial.id = %trial.id, error = error.text(), "an event file is written anew");
            self.trials.remove(&trial.id);
            return Ok(false);
        }
        self.note(trial, written);
        Ok(true)
    }

    /// Writes the files of all attempts of `trial` with measurements, and of the current one.
    async fn write_whole(&mut self, view: &View<'_>, study: &Study, trial: &Trial) -> Result<(), TrackingError> {
        let current = trial.attempt.max(1);
        let mut files: BTreeMap<u64, EventBytes> = BTreeMap::new();
        let mut from = 0;
        let existing = (1..current).filter(|attempt| self.path(trial, *attempt).is_file());
        for attempt in existing.chain([current]) {
            files.insert(attempt, started(study, trial, attempt));
        }
        loop {
            let (measurements, next) = view.measurements(study, trial, from, PAGE).await?;
            if next == from {
                break;
            }
            for measurement in &measurements {
                let attempt = attempt_of(trial, measurement);
                files
                    .entry(attempt)
                    .or_insert_with(|| started(study, trial, attempt))
                    .add_measurement(trial, measurement);
            }
            from = next;
        }
        for (attempt, mut bytes) in files {
            if attempt == current {
                add_end(&mut bytes, trial);
            } else {
                // Lost, or failed and retried.
                bytes.add_end(SessionStatus::Failure, start_of(trial, attempt + 1));
            }
            let length = bytes.0.len() as u64;
            let path = self.path(trial, attempt);
            blocking(move || (path.clone(), file::bring_up_to_date(&path, &bytes.0))).await?;
            if attempt == current {
                self.note(trial, Written { attempt, measurements: from, length });
            }
        }
        Ok(())
    }

    fn note(&mut self, trial: &Trial, written: Written) {
        if trial.state.is_final() {
            self.trials.remove(&trial.id);
        } else {
            self.trials.insert(trial.id, written);
        }
    }
}

/// File of an attempt with its start.
fn started(study: &Study, trial: &Trial, attempt: u64) -> EventBytes {
    let start = start_of(trial, attempt);
    let mut bytes = EventBytes::new(start);
    bytes.add_start(study, trial, start);
    bytes
}

/// Start of an attempt, as far as known: the first and the current one have theirs, the others that of the first one.
fn start_of(trial: &Trial, attempt: u64) -> f64 {
    let first = trial.start_time.unwrap_or(trial.create_time);
    let start = if attempt >= trial.attempt.max(2) { trial.attempt_start_time.unwrap_or(first) } else { first };
    seconds(start)
}

/// Attempt that made the report. Where it is not recorded, the current attempt if it had started, else the one before.
fn attempt_of(trial: &Trial, measurement: &Measurement) -> u64 {
    let current = trial.attempt.max(1);
    match &measurement.key {
        ReportKey::MetricFile { attempt } | ReportKey::StandardOutput { attempt, .. } => (*attempt).clamp(1, current),
        ReportKey::EventFile { .. } | ReportKey::Http => {
            let is_earlier = measurement.wall_time_secs > 0.0 && measurement.wall_time_secs < start_of(trial, current);
            if is_earlier { (current - 1).max(1) } else { current }
        }
    }
}

fn add_end(bytes: &mut EventBytes, trial: &Trial) {
    let status = match trial.state {
        TrialState::Succeeded => SessionStatus::Success,
        TrialState::Infeasible if trial.stopped_early => SessionStatus::Success,
        TrialState::Infeasible => SessionStatus::Failure,
        _ => return,
    };
    bytes.add_end(status, seconds(trial.end_time.unwrap_or(trial.create_time)));
}

/// Runs `write`, which returns the path of its file, on a blocking thread.
async fn blocking(write: impl FnOnce() -> (PathBuf, io::Result<()>) + Send + 'static) -> Result<(), TrackingError> {
    let (path, done) = match tokio::task::spawn_blocking(write).await {
        Ok(done) => done,
        Err(error) => (PathBuf::new(), Err(io::Error::other(error))),
    };
    done.map_err(|source| TrackingError::File { path, source })
}

#[async_trait]
impl Destination for EventFiles {
    async fn open(&mut self, view: &View<'_>) -> Result<(), TrackingError> {
        let Some(study) = view.study.filter(|_| !self.has_experiment) else { return Ok(()) };
        let mut bytes = EventBytes::new(seconds(view.subject.created));
        bytes.add_experiment(view.subject, study);
        let path = self.folder.join("events.out.tfevents.0.experiment.tunesmith");
        blocking(move || (path.clone(), file::bring_up_to_date(&path, &bytes.0))).await?;
        self.has_experiment = true;
        Ok(())
    }

    async fn put(&mut self, view: &View<'_>, trials: Vec<Trial>) -> Result<(), TrackingError> {
        let Some(study) = view.study else { return Ok(()) };
        for trial in &trials {
            self.put_trial(view, study, trial).await?;
        }
        Ok(())
    }

    async fn conclude(&mut self, _view: &View<'_>, _results: &Results) -> Result<(), TrackingError> {
        Ok(())
    }

    async fn finish(&mut self, _view: &View<'_>, _recommended: Option<TrialId>) -> Result<Finish, TrackingError> {
        Ok(Finish::Complete)
    }
}
