//! The trials whose programs run under this process, with their tokens and their stored curves.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tunesmith_algorithms::early_stopping::CurvePoint;

use tunesmith_domain::{Measurement, StudyId, TrialId};
use tunesmith_store::StoreError;
use tunesmith_telemetry::{WaitKind, telemetry};

/// The name of a trial of any study.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrialKey {
    /// The study.
    pub study: StudyId,
    /// The trial.
    pub trial: TrialId,
}

/// Why a report over HTTP was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The trial is not running under this process.
    #[error("trial {trial} of study {study} is not running")]
    NotRunning {
        /// The study.
        study: StudyId,
        /// The trial.
        trial: TrialId,
    },
    /// The token does not belong to the current attempt.
    #[error("the token does not belong to the current attempt of trial {trial}")]
    WrongToken {
        /// The trial.
        trial: TrialId,
    },
    /// The store refused the report, or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The trials that run under this process.
#[derive(Debug, Default)]
pub struct LiveTrials {
    trials: Mutex<HashMap<TrialKey, Arc<LiveTrial>>>,
}

impl LiveTrials {
    /// Adds a trial, which is removed when the returned value is dropped.
    pub(super) fn insert(self: &Arc<Self>, key: TrialKey, trial: LiveTrial) -> Registration {
        let trial = Arc::new(trial);
        self.lock().insert(key.clone(), Arc::clone(&trial));
        Registration { live: Arc::clone(self), key, trial }
    }

    /// Returns the engine's reason for which the program of the trial `key` has not started; `None` if it has, or if the trial
    /// does not run under this process.
    pub fn waiting_reason(&self, key: &TrialKey) -> Option<String> {
        self.get(key)?.waiting_reason()
    }

    /// Returns the trial `key`, if it runs.
    pub(super) fn get(&self, key: &TrialKey) -> Option<Arc<LiveTrial>> {
        self.lock().get(key).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TrialKey, Arc<LiveTrial>>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One running trial.
#[derive(Debug)]
pub(super) struct LiveTrial {
    /// The running attempt.
    pub(super) attempt: u64,
    /// The metric of the curve.
    tag: String,
    /// The token that reports over HTTP must contain.
    pub(super) token: String,
    /// Notified of each report over HTTP.
    pub(super) reported: Notify,
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    /// The points in the order of arrival.
    curve: Vec<CurvePoint>,
    http_tags: BTreeSet<String>,
    /// Why the program has not started.
    waiting: Option<String>,
}

impl Drop for LiveTrial {
    fn drop(&mut self) {
        // A trial that waits is no longer followed.
        self.set_waiting(None);
    }
}

impl LiveTrial {
    /// Creates a trial with the measurements `stored`.
    pub(super) fn new(attempt: u64, token: String, tag: String, stored: &[Measurement]) -> Self {
        let live = Self { attempt, tag, token, reported: Notify::new(), state: Mutex::default() };
        live.extend(stored);
        live
    }

    /// Adds measurements, which have been stored.
    pub(super) fn extend(&self, measurements: &[Measurement]) {
        let points = measurements.iter().filter_map(|measurement| {
            Some(CurvePoint { step: measurement.step, value: measurement.value(&self.tag)? })
        });
        self.lock().curve.extend(points);
    }

    /// Records the names of the metrics of a report over HTTP.
    pub(super) fn note_tags(&self, measurement: &Measurement) {
        self.lock().http_tags.extend(measurement.metrics.iter().map(|metric| metric.metric.clone()));
    }

    /// Returns the names of the metrics that were reported over HTTP.
    pub(super) fn http_tags(&self) -> BTreeSet<String> {
        self.lock().http_tags.clone()
    }

    /// Records why the program has not started, or that it has. Returns whether that is new.
    pub(super) fn set_waiting(&self, reason: Option<String>) -> bool {
        let mut state = self.lock();
        let changed = state.waiting != reason;
        let change = i64::from(reason.is_some()) - i64::from(state.waiting.is_some());
        telemetry().change_trials_waiting(WaitKind::Engine, change);
        state.waiting = reason;
        changed
    }

    /// Returns why the program has not started.
    pub(super) fn waiting_reason(&self) -> Option<String> {
        self.lock().waiting.clone()
    }

    /// Returns the curve so far, in the order of arrival.
    pub(super) fn curve(&self) -> Vec<CurvePoint> {
        self.lock().curve.clone()
    }

    /// Returns the number of points of the curve, which is the mark of the next report over HTTP.
    pub(super) fn points(&self) -> usize {
        self.lock().curve.len()
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry in [`LiveTrials`], which is removed when this value is dropped.
pub(super) struct Registration {
    live: Arc<LiveTrials>,
    key: TrialKey,
    pub(super) trial: Arc<LiveTrial>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.live.lock().remove(&self.key);
    }
}
