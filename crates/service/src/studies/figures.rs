//! Figures about the trials of a study, kept up to date by reading only the changes since the last request.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, TrialId};

use super::{Studies, StudiesError};
use crate::pages;
use crate::study_cache::StudyCache;
use tunesmith_domain::{Study, StudyId, Trial, TrialState};
use tunesmith_store::{Store, StoreError};

/// Maximum number of different reasons of infeasible trials that are counted each.
const MAX_REASONS: usize = 50;

/// What the trials of a study amount to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StudyFigures {
    /// Number of trials without an owner.
    pub requested: u64,
    /// Number of running trials.
    pub active: u64,
    /// Number of trials that are being stopped.
    pub stopping: u64,
    /// Number of attempts of the trials that have not ended that were lost or preempted.
    pub open_lost_attempts: u64,
    /// How long those attempts ran.
    pub open_lost_time: Duration,
    /// Figures of the trials that have ended.
    pub ended: EndedFigures,
}

/// What the trials that have ended amount to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndedFigures {
    /// Number of succeeded trials.
    pub succeeded: u64,
    /// Number of those that were stopped early.
    pub stopped_early: u64,
    /// Number of trials that failed: they have no usable result, and were not stopped early.
    pub infeasible: u64,
    /// Number of trials that were stopped before they had a result.
    pub stopped_without_result: u64,
    /// Number of trials that reported a measurement, or have a result.
    pub measured: u64,
    /// Number of infeasible trials by reason, in which `<trial>` stands for the folder of the trial. Those of rare reasons
    /// are not listed if there are many.
    pub reasons: BTreeMap<String, u64>,
    /// Number of trials with the parameters of another one.
    pub duplicates: u64,
    /// Number of results of the first metric that are finite.
    pub finite: u64,
    /// The lowest and the highest of them.
    pub range: Option<(f64, f64)>,
    /// Number of measurements.
    pub measurements: u64,
    /// Number of attempts that were lost or preempted.
    pub lost_attempts: u64,
    /// How long those attempts ran.
    pub lost_time: Duration,
    /// Total time of all trials from their start to their end.
    pub time: Duration,
    /// Total time of the succeeded trials that were not stopped early.
    pub time_of_whole: Duration,
    /// Total time of those that were stopped early.
    pub time_of_stopped: Duration,
    /// When the last trial ended.
    pub last_end: Option<Timestamp>,
}

impl EndedFigures {
    /// Estimated time that stopping trials early has saved: the stopped trials would have run as long as the others did on
    /// average. `None` if none was stopped or no other has ended.
    pub fn saved_time(&self) -> Option<Duration> {
        let whole = self.succeeded.saturating_sub(self.stopped_early);
        if whole == 0 || self.stopped_early == 0 {
            return None;
        }
        let mean = self.time_of_whole.as_secs_f64() / whole as f64;
        let saved = mean * self.stopped_early as f64 - self.time_of_stopped.as_secs_f64();
        Duration::try_from_secs_f64(saved).ok()
    }
}

/// One value for each study that was asked for.
#[derive(Default)]
pub(super) struct Figures(StudyCache<Known>);

/// The figures up to a revision of the study.
struct Known {
    /// Distinguishes studies of the same name.
    create_time: Timestamp,
    revision: u64,
    ended: EndedFigures,
    /// The trials that are counted.
    counted: HashSet<TrialId>,
    /// Digests of the parameters of the counted trials.
    points: HashSet<u64>,
}

impl Studies {
    /// Figures about the trials of `study`. The first call for a study reads all its trials, later ones only what has
    /// changed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn figures(&self, study: &Study) -> Result<StudyFigures, StudiesError> {
        Ok(self.figures.of(&*self.store, study).await?)
    }
}

impl Figures {
    async fn of(&self, store: &dyn Store, study: &Study) -> Result<StudyFigures, StoreError> {
        let known = self.0.get_or_insert(&study.id, || Known::new(study));
        let mut known = known.lock().await;
        if known.create_time != study.create_time {
            *known = Known::new(study);
        }
        while !known.refresh(store, study).await? {
            *known = Known::new(study);
        }
        let mut figures = StudyFigures { ended: known.ended.clone(), ..StudyFigures::default() };
        let mut open = pin!(pages::open_trials(store, &study.id));
        while let Some(trial) = open.try_next().await? {
            figures.open_lost_attempts += trial.lost_attempts + trial.preempted_attempts;
            figures.open_lost_time += trial.lost_time;
            match trial.state {
                TrialState::Requested => figures.requested += 1,
                TrialState::Active => figures.active += 1,
                TrialState::Stopping => figures.stopping += 1,
                TrialState::Succeeded | TrialState::Infeasible | TrialState::Deleted => {}
            }
        }
        Ok(figures)
    }

    /// Drops the figures of `study`.
    pub(super) fn forget(&self, study: &StudyId) {
        self.0.forget(study);
    }

    /// Drops the figures that were not used during the last `calls` calls of this function, and returns their number.
    pub(super) fn drop_idle(&self, calls: u32) -> usize {
        self.0.drop_idle(calls)
    }

    /// Drops all figures, and returns their number.
    pub(super) fn clear(&self) -> usize {
        self.0.clear()
    }
}

impl Known {
    fn new(study: &Study) -> Self {
        Self {
            create_time: study.create_time,
            revision: 0,
            ended: EndedFigures::default(),
            counted: HashSet::new(),
            points: HashSet::new(),
        }
    }

    /// Reads the changes since the last call. Returns false if a counted trial has changed, so that all have to be counted
    /// again.
    async fn refresh(&mut self, store: &dyn Store, study: &Study) -> Result<bool, StoreError> {
        let metric = study.problem.metrics().first().map_or("", |metric| metric.name.as_str());
        let mut changed = pin!(pages::changed_trials(store, &study.id, self.revision));
        while let Some(trial) = changed.try_next().await? {
            if self.counted.contains(&trial.id) {
                return Ok(false);
            }
            self.revision = trial.revision;
            self.count(&trial, metric);
        }
        Ok(true)
    }

    fn count(&mut self, trial: &Trial, metric: &str) {
        if !matches!(trial.state, TrialState::Succeeded | TrialState::Infeasible) {
            return;
        }
        self.counted.insert(trial.id);
        let ended = &mut self.ended;
        ended.duplicates += u64::from(!self.points.insert(digest(&trial.parameters)));
        ended.measured += u64::from(trial.measurement_count > 0 || trial.final_measurement.is_some());
        ended.measurements += trial.measurement_count;
        ended.lost_attempts += trial.lost_attempts + trial.preempted_attempts;
        ended.lost_time += trial.lost_time;
        ended.last_end = ended.last_end.max(trial.end_time);
        let time = trial.start_time.zip(trial.end_time).map(|(start, end)| end.duration_since(start));
        let time = time.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default();
        ended.time += time;
        if trial.state == TrialState::Infeasible && trial.stopped_early {
            ended.stopped_without_result += 1;
            return;
        }
        if trial.state == TrialState::Infeasible {
            ended.infeasible += 1;
            let reason = reason_of_any_trial(trial.infeasible_reason.as_deref().unwrap_or_default(), trial.id);
            if let Some(count) = ended.reasons.get_mut(&*reason) {
                *count += 1;
            } else if ended.reasons.len() < MAX_REASONS {
                ended.reasons.insert(reason.into_owned(), 1);
            }
            return;
        }
        ended.succeeded += 1;
        if trial.stopped_early {
            ended.stopped_early += 1;
            ended.time_of_stopped += time;
        } else {
            ended.time_of_whole += time;
        }
        let value = trial.final_measurement.as_ref().and_then(|measurement| measurement.value(metric));
        if let Some(value) = value.filter(|value| value.is_finite()) {
            ended.finite += 1;
            let (low, high) = ended.range.unwrap_or((value, value));
            ended.range = Some((low.min(value), high.max(value)));
        }
    }
}

/// `reason` with `<trial>` for `trial` where that is a folder or file in a path, such as that of a job-dir, so that equal
/// reasons of several trials are equal texts.
fn reason_of_any_trial(reason: &str, trial: TrialId) -> Cow<'_, str> {
    let folder = format!("/{trial}");
    if !reason.contains(&folder) {
        return Cow::Borrowed(reason);
    }
    let mut parts = reason.split(&folder);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A longer name only begins with the number.
        let is_whole = !part.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '-' | '.'));
        text.push_str(if is_whole { "/<trial>" } else { &folder });
        text.push_str(part);
    }
    Cow::Owned(text)
}

fn digest(parameters: &ParameterValues) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, value) in parameters {
        name.hash(&mut hasher);
        match value {
            ParameterValue::Double(number) | ParameterValue::Discrete(number) => number.to_bits().hash(&mut hasher),
            ParameterValue::Integer(number) => number.hash(&mut hasher),
            ParameterValue::Categorical(text) => text.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_the_folder_of_their_trial_are_equal() {
        for (reason, trial, expected) in [
            ("exit code 12", 12, "exit code 12"),
            ("cannot open /models/12/epoch-3", 12, "cannot open /models/<trial>/epoch-3"),
            ("cannot open '/models/12' (/models/12)", 12, "cannot open '/models/<trial>' (/models/<trial>)"),
            ("cannot open /models/123 nor /12.csv nor /12", 12, "cannot open /models/123 nor /12.csv nor /<trial>"),
            ("cannot open /models/13/epoch-3", 12, "cannot open /models/13/epoch-3"),
        ] {
            assert_eq!(reason_of_any_trial(reason, TrialId(trial)), expected, "{reason}");
        }
    }
}
