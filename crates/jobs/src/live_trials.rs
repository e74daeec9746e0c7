//! The trials whose programs run under this process, with their tokens and their stored curves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tunesmith_algorithms::early_stopping::CurvePoint;

use tunesmith_domain::{Measurement, MetricFolders, ReportKey, StudyId, TrialId, WaitKind};
use tunesmith_store::StoreError;
use tunesmith_telemetry::telemetry;

/// Maximum number, and length in bytes, of the names of metrics that are remembered of one attempt, as of its files.
const MAX_HTTP_TAGS: usize = 1_000;
const MAX_HTTP_TAG_BYTES: usize = 256;

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
    /// The trial is not running under this process, or under any server.
    #[error("trial {} of study {} is not running", .0.trial, .0.study)]
    NotRunning(TrialKey),
    /// The token does not belong to the current attempt.
    #[error("the token does not belong to the current attempt of trial {0}")]
    WrongToken(TrialId),
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
    pub(crate) fn insert(self: &Arc<Self>, key: TrialKey, trial: LiveTrial) -> Registration {
        let trial = Arc::new(trial);
        self.lock().insert(key.clone(), Arc::clone(&trial));
        Registration { live: Arc::clone(self), key, trial }
    }

    /// Returns the engine's reason for which the program of the trial `key` has not started; `None` if it has, or if the trial
    /// does not run under this process.
    pub fn waiting_reason(&self, key: &TrialKey) -> Option<String> {
        self.get(key)?.waiting_reason()
    }

    /// Returns the reasons for which programs of trials of `study` have not started, each with the first trial and the number of trials.
    pub(crate) fn waiting_reasons(&self, study: &StudyId) -> BTreeMap<String, (TrialId, u64)> {
        let mut reasons = BTreeMap::new();
        for (key, live) in self.lock().iter().filter(|(key, _)| key.study == *study) {
            let Some(reason) = live.waiting_reason() else { continue };
            let (first, count) = reasons.entry(reason).or_insert((key.trial, 0));
            *first = key.trial.min(*first);
            *count += 1;
        }
        reasons
    }

    /// Notes that the trial `key` was changed in the store: another server has stored measurements, or a user stops it.
    pub(crate) fn note_changed(&self, key: &TrialKey) {
        if let Some(live) = self.get(key) {
            live.outdated.notify_one();
        }
    }

    /// Notes that other servers may have stored measurements of any trial.
    pub(crate) fn note_all_measured(&self) {
        self.lock().values().for_each(|live| live.outdated.notify_one());
    }

    /// Returns the trial `key`, if it runs.
    pub(crate) fn get(&self, key: &TrialKey) -> Option<Arc<LiveTrial>> {
        self.lock().get(key).cloned()
    }

    /// Adds measurements of `attempt`, stored as the last ones of `count`, to the curve of the trial `key`, if it runs.
    pub(crate) fn extend(&self, key: &TrialKey, attempt: u64, measurements: &[Measurement], count: u64) {
        if let Some(live) = self.get(key).filter(|live| live.attempt == attempt) {
            live.extend(measurements, count);
            live.reported.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TrialKey, Arc<LiveTrial>>> {
        self.trials.lock()
    }
}

/// One running trial.
#[derive(Debug)]
pub(crate) struct LiveTrial {
    /// The running attempt.
    pub(crate) attempt: u64,
    /// The metric of the curve.
    tag: String,
    /// The token that reports over HTTP must contain.
    pub(crate) token: String,
    /// Notified of each report over HTTP.
    pub(crate) reported: Notify,
    /// Notified when the store may have measurements that the curve lacks, or the trial was requested to stop.
    pub(crate) outdated: Notify,
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    /// The points in the order of arrival, each with its folder of event files.
    points: Vec<(Option<Arc<str>>, CurvePoint)>,
    /// The folders of the metric, of which one has the curve.
    folders: MetricFolders,
    /// Number of stored measurements whose points are known, from the first one on.
    known: u64,
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
    /// Creates a trial with the measurements `stored`, `count` of them.
    pub(crate) fn new(attempt: u64, token: String, tag: String, stored: &[Measurement], count: u64) -> Self {
        let (reported, outdated) = (Notify::new(), Notify::new());
        let live = Self { attempt, tag, token, reported, outdated, state: Mutex::default() };
        live.add_points(&mut live.lock(), stored);
        live.lock().known = count;
        live
    }

    /// Adds measurements, which have been stored as the last ones of `count`. If the curve lacks some before them, it is
    /// outdated instead.
    pub(crate) fn extend(&self, measurements: &[Measurement], count: u64) {
        if !self.complete(count.saturating_sub(measurements.len() as u64), measurements) {
            self.outdated.notify_one();
        }
    }

    /// Adds the stored measurements from number `from` on that the curve lacks. Returns false if it lacks some before them.
    pub(crate) fn complete(&self, from: u64, measurements: &[Measurement]) -> bool {
        let mut state = self.lock();
        let Some(skipped) = state.known.checked_sub(from) else { return false };
        let missing = measurements.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
        self.add_points(&mut state, missing);
        state.known += missing.len() as u64;
        let of_http = missing.iter().filter(|measurement| measurement.key == ReportKey::Http);
        for metric in of_http.flat_map(|one| &one.metrics) {
            if state.http_tags.len() < MAX_HTTP_TAGS && metric.metric.len() <= MAX_HTTP_TAG_BYTES {
                state.http_tags.insert(metric.metric.clone());
            }
        }
        true
    }

    /// Number of stored measurements that the curve contains.
    pub(crate) fn known(&self) -> u64 {
        self.lock().known
    }

    fn add_points(&self, state: &mut LiveState, measurements: &[Measurement]) {
        for measurement in measurements {
            if let Some(value) = measurement.value(&self.tag) {
                state.folders.note(measurement);
                state.points.push((measurement.folder().cloned(), CurvePoint { step: measurement.step, value }));
            }
        }
    }

    /// Returns the names of the metrics that were reported over HTTP.
    pub(crate) fn http_tags(&self) -> BTreeSet<String> {
        self.lock().http_tags.clone()
    }

    /// Records why the program has not started, or that it has. Returns whether that is new.
    pub(crate) fn set_waiting(&self, reason: Option<String>) -> bool {
        let mut state = self.lock();
        let changed = state.waiting != reason;
        let change = i64::from(reason.is_some()) - i64::from(state.waiting.is_some());
        telemetry().change_trials_waiting(WaitKind::Engine.as_str(), change);
        state.waiting = reason;
        changed
    }

    /// Returns why the program has not started.
    pub(crate) fn waiting_reason(&self) -> Option<String> {
        self.lock().waiting.clone()
    }

    /// Returns the curve so far, in the order of arrival, and the folder of event files that it is from.
    pub(crate) fn curve(&self) -> (Option<Arc<str>>, Vec<CurvePoint>) {
        let state = self.lock();
        let taken = state.folders.taken(&self.tag);
        let is_of_curve = |(folder, _): &&(Option<Arc<str>>, CurvePoint)| folder.is_none() || folder.as_ref() == taken;
        let curve = state.points.iter().filter(is_of_curve).map(|(_, point)| *point).collect();
        (taken.cloned(), curve)
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock()
    }
}

/// An entry in [`LiveTrials`], which is removed when this value is dropped.
pub(crate) struct Registration {
    live: Arc<LiveTrials>,
    key: TrialKey,
    pub(crate) trial: Arc<LiveTrial>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.live.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Measurements of the metric "acc" with these steps, reported over HTTP.
    fn measured(steps: std::ops::Range<i64>) -> Vec<Measurement> {
        steps
            .map(|step| Measurement {
                key: ReportKey::Http,
                metrics: vec![tunesmith_domain::MetricValue { metric: "acc".to_owned(), value: 0.5 }],
                ..tunesmith_contract::samples::measurement(step, 0.5)
            })
            .collect()
    }

    fn steps(live: &LiveTrial) -> Vec<i64> {
        live.curve().1.iter().map(|point| point.step).collect()
    }

    #[test]
    fn curve_contains_every_stored_measurement_once_from_any_server() {
        let live = LiveTrial::new(1, String::new(), "acc".to_owned(), &measured(0..2), 2);
        live.extend(&measured(2..3), 3);
        assert_eq!((steps(&live), live.known()), (vec![0, 1, 2], 3));
        assert!(live.outdated.notified().now_or_never().is_none());
        // Another server has stored two before this one.
        live.extend(&measured(5..6), 6);
        assert_eq!(live.known(), 3);
        assert!(live.outdated.notified().now_or_never().is_some());
        live.complete(2, &measured(2..6));
        assert_eq!((steps(&live), live.known()), (vec![0, 1, 2, 3, 4, 5], 6));
        assert!(live.http_tags().contains("acc"));
        // One that was read before its answer came, and a part that does not follow.
        live.extend(&measured(5..6), 6);
        live.complete(8, &measured(8..9));
        assert_eq!((steps(&live), live.known()), (vec![0, 1, 2, 3, 4, 5], 6));
    }

    #[test]
    fn points_of_a_less_good_series_leave_the_curve() {
        let of_folder = |folder: &str, steps| {
            let measured = measured(steps).into_iter();
            let key = ReportKey::EventFile { folder: folder.into() };
            measured.map(|one| Measurement { key: key.clone(), ..one }).collect::<Vec<_>>()
        };
        let live = LiveTrial::new(1, String::new(), "acc".to_owned(), &of_folder("train", 0..2), 2);
        assert_eq!((steps(&live), live.curve().0.as_deref()), (vec![0, 1], Some("train")));
        live.extend(&of_folder("validation", 5..6), 3);
        live.extend(&of_folder("train", 2..4), 5);
        live.extend(&measured(9..10), 6);
        assert_eq!((steps(&live), live.curve().0.as_deref()), (vec![5, 9], Some("validation")));
        assert_eq!(live.known(), 6);
    }
}
