//! The trials whose programs run under this process: their tokens, and their curves as far as they are stored.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tunesmith_algorithms::early_stopping::CurvePoint;

use tunesmith_domain::{Measurement, StudyId, TrialId};
use tunesmith_store::StoreError;

/// Names one trial of all studies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrialKey {
    /// The study.
    pub study: StudyId,
    /// The trial.
    pub trial: TrialId,
}

/// Why a report over HTTP was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The trial does not run here: it has ended, or there never was one.
    #[error("trial {trial} of study {study} is not running")]
    NotRunning {
        /// The study.
        study: StudyId,
        /// The trial.
        trial: TrialId,
    },
    /// The token is not that of the trial's present attempt.
    #[error("the token does not belong to the present attempt at trial {trial}")]
    WrongToken {
        /// The trial.
        trial: TrialId,
    },
    /// The report was refused or could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All trials that run under this process.
#[derive(Debug, Default)]
pub struct LiveTrials {
    trials: Mutex<HashMap<TrialKey, Arc<LiveTrial>>>,
}

impl LiveTrials {
    /// Announces a trial; it counts as live until the returned value is dropped.
    pub(super) fn announce(self: &Arc<Self>, key: TrialKey, trial: LiveTrial) -> Announced {
        let trial = Arc::new(trial);
        self.lock().insert(key.clone(), Arc::clone(&trial));
        Announced { live: Arc::clone(self), key, trial }
    }

    /// The live trial `key`.
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
    /// The attempt that runs.
    pub(super) attempt: u64,
    /// The tag under which the curve is reported.
    tag: String,
    /// What a reporter over HTTP must show.
    pub(super) token: String,
    /// Woken at each report over HTTP.
    pub(super) reported: Notify,
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    /// In the order of arrival.
    curve: Vec<CurvePoint>,
    http_tags: BTreeSet<String>,
}

impl LiveTrial {
    /// A trial that has reported `stored` so far.
    pub(super) fn new(attempt: u64, token: String, tag: String, stored: &[Measurement]) -> Self {
        let live = Self { attempt, tag, token, reported: Notify::new(), state: Mutex::default() };
        live.extend(stored);
        live
    }

    /// Adds what has been stored.
    pub(super) fn extend(&self, measurements: &[Measurement]) {
        let points = measurements.iter().filter_map(|measurement| {
            Some(CurvePoint { step: measurement.step, value: measurement.value(&self.tag)? })
        });
        self.lock().curve.extend(points);
    }

    /// Notes the names of metrics that came over HTTP.
    pub(super) fn note_tags(&self, measurement: &Measurement) {
        self.lock().http_tags.extend(measurement.metrics.iter().map(|metric| metric.metric.clone()));
    }

    /// Names of the metrics that came over HTTP.
    pub(super) fn http_tags(&self) -> BTreeSet<String> {
        self.lock().http_tags.clone()
    }

    /// The curve so far, in the order of arrival.
    pub(super) fn curve(&self) -> Vec<CurvePoint> {
        self.lock().curve.clone()
    }

    /// How many points the curve has, which numbers the reports over HTTP.
    pub(super) fn points(&self) -> usize {
        self.lock().curve.len()
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A trial that is announced as live for as long as this value lives.
pub(super) struct Announced {
    live: Arc<LiveTrials>,
    key: TrialKey,
    pub(super) trial: Arc<LiveTrial>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.live.lock().remove(&self.key);
    }
}
