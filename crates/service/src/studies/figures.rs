//! Figures about the trials of a study.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tunesmith_algorithms::problem::{ParameterValue, ParameterValues, TrialId};

use super::{Studies, StudiesError};
use crate::number_set::NumberSet;
use crate::pages;
use tunesmith_domain::{Study, Trial, TrialFields, TrialState};

/// Maximum number of points with which others are compared: a small search space is exhausted long before.
pub const MAX_POINTS: usize = 100_000;

/// Maximum number of different reasons of infeasible trials that are counted each.
const MAX_REASONS: usize = 50;

/// Counts and lost time of the trials of a study.
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

/// Summary of the ended trials. Stored as part of summaries: a change requires another version of their format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Number of trials with the parameters of one of the first [`MAX_POINTS`] different ones.
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

/// The figures of some trials of a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CountedTrials {
    pub(super) ended: EndedFigures,
    /// The trials that are counted.
    pub(super) counted: NumberSet,
    /// Digests of the parameters of the first counted trials, at most [`MAX_POINTS`].
    pub(super) points: HashSet<u64>,
}

impl Studies {
    /// Figures about the trials of `study`. A call reads what has changed since the last one, or since the stored summary of
    /// the study.
    ///
    /// # Errors
    /// [`tunesmith_store::StoreError::NotFound`].
    pub async fn figures(&self, study: &Study) -> Result<StudyFigures, StudiesError> {
        let ended = self.summaries.figures(&self.store, study).await?;
        let mut figures = StudyFigures { ended, ..StudyFigures::default() };
        let mut open = pin!(pages::open_trials(&*self.store, &study.id));
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
}

impl CountedTrials {
    /// Counts `trial` if it has ended; `metric` is the first metric of the study. Returns false if it was counted before, and
    /// may have been counted in another state.
    #[must_use]
    pub(super) fn add(&mut self, trial: &Trial, metric: &str) -> bool {
        if self.counted.contains(trial.id) {
            return false;
        }
        self.count(trial, metric);
        true
    }

    /// Removes a deleted trial if it is counted. Returns false if all have to be counted again, because another one takes its
    /// place in a figure.
    #[must_use]
    pub(super) fn remove(&mut self, deleted: &Trial, metric: &str) -> bool {
        if !self.counted.contains(deleted.id) {
            return true;
        }
        let has_failed = deleted.infeasible_reason.is_some();
        let state = if has_failed { TrialState::Infeasible } else { TrialState::Succeeded };
        let mut alone = Self::default();
        alone.count(&Trial::restore(TrialFields { state, ..(**deleted).clone() }), metric);
        let (ended, alone) = (&mut self.ended, alone.ended);
        let is_extreme = |(value, _)| ended.range.is_none_or(|(low, high)| value <= low || value >= high);
        if alone.range.is_some_and(is_extreme) || alone.last_end >= ended.last_end || ended.duplicates > 0 {
            return false;
        }
        for (count, of_one) in [
            (&mut ended.succeeded, alone.succeeded),
            (&mut ended.stopped_early, alone.stopped_early),
            (&mut ended.infeasible, alone.infeasible),
            (&mut ended.stopped_without_result, alone.stopped_without_result),
            (&mut ended.measured, alone.measured),
            (&mut ended.finite, alone.finite),
            (&mut ended.measurements, alone.measurements),
            (&mut ended.lost_attempts, alone.lost_attempts),
        ] {
            *count = count.saturating_sub(of_one);
        }
        for (time, of_one) in [
            (&mut ended.lost_time, alone.lost_time),
            (&mut ended.time, alone.time),
            (&mut ended.time_of_whole, alone.time_of_whole),
            (&mut ended.time_of_stopped, alone.time_of_stopped),
        ] {
            *time = time.saturating_sub(of_one);
        }
        for (reason, of_one) in alone.reasons {
            if let Some(count) = ended.reasons.get_mut(&reason) {
                *count = count.saturating_sub(of_one);
            }
        }
        ended.reasons.retain(|_, count| *count > 0);
        self.counted.remove(deleted.id);
        self.points.remove(&digest(&deleted.parameters));
        true
    }

    fn count(&mut self, trial: &Trial, metric: &str) {
        if !matches!(trial.state, TrialState::Succeeded | TrialState::Infeasible) {
            return;
        }
        self.counted.insert(trial.id);
        let ended = &mut self.ended;
        let point = digest(&trial.parameters);
        let is_new = !self.points.contains(&point);
        ended.duplicates += u64::from(!is_new);
        if is_new && self.points.len() < MAX_POINTS {
            self.points.insert(point);
        }
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

/// A digest of a point, the same in every version of the program: summaries contain it.
fn digest(parameters: &ParameterValues) -> u64 {
    let mut hasher = Sha256::new();
    for (name, value) in parameters {
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        match value {
            ParameterValue::Double(number) | ParameterValue::Discrete(number) => {
                hasher.update(number.to_bits().to_le_bytes());
            }
            ParameterValue::Integer(number) => hasher.update(number.to_le_bytes()),
            ParameterValue::Categorical(text) => {
                hasher.update((text.len() as u64).to_le_bytes());
                hasher.update(text);
            }
        }
    }
    let bytes: [u8; 32] = hasher.finalize().into();
    bytes[..8].iter().fold(0, |digest, byte| digest << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use tunesmith_domain::{Completion, NewTrial, TrialStart};
    use tunesmith_store::contract::samples;

    use super::*;

    fn ended(id: u64, value: f64) -> Trial {
        let completion = Completion::Succeeded { final_measurement: samples::measurement(1, value) };
        let new = NewTrial { start: TrialStart::Completed(completion), ..samples::new_trial(id) };
        let parameters = [("x".to_owned(), ParameterValue::Double(id as f64))].into();
        let end = samples::at(id as i64);
        samples::study("p/l/s").add_trial(NewTrial { id: TrialId(1), parameters, create_time: end, ..new }).map_or_else(
            |error| panic!("{error}"),
            |trial| Trial::restore(TrialFields { id: TrialId(id), ..(*trial).clone() }),
        )
    }

    fn deleted(trial: &Trial) -> Trial {
        Trial::restore(TrialFields { state: TrialState::Deleted, ..(**trial).clone() })
    }

    #[test]
    fn figures_without_a_deleted_trial_are_those_of_the_others() {
        let metric = samples::study("p/l/s").problem.metrics()[0].name.clone();
        let trials: Vec<Trial> =
            [(1, 5.0), (2, 9.0), (3, 1.0), (4, 6.0), (5, 2.0)].map(|(id, value)| ended(id, value)).into();
        let counted = |trials: &mut dyn Iterator<Item = &Trial>| {
            let mut all = CountedTrials::default();
            trials.for_each(|trial| assert!(all.add(trial, &metric)));
            all
        };
        let mut all = counted(&mut trials.iter());
        assert!(all.remove(&deleted(&trials[3]), &metric));
        assert!(all.remove(&deleted(&trials[3]), &metric), "it is not counted any more");
        assert_eq!(all, counted(&mut trials.iter().filter(|trial| trial.id != TrialId(4))));
        assert!(!all.remove(&deleted(&trials[1]), &metric), "it has the highest value");
        assert!(!all.remove(&deleted(&trials[4]), &metric), "it ended last");
        assert!(!all.add(&trials[0], &metric), "it was counted before");
    }

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
