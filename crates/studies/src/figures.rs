//! Statistics about the trials of a study.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::problem::TrialId;

use super::{Studies, StudiesError};
use crate::digests::of_point;
use crate::number_set::NumberSet;
use tunesmith_domain::{Study, Trial, TrialFields, TrialState};
use tunesmith_store::pages;

/// Limit on stored points for duplicate detection; a small search space is exhausted long before.
pub const MAX_POINTS: usize = 100_000;

/// Limit on distinct infeasibility reasons with their own count.
const MAX_REASONS: usize = 50;

/// Trial counts and lost time of a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StudyFigures {
    /// Trials without an owner.
    pub requested: u64,
    pub active: u64,
    pub stopping: u64,
    /// Lost or preempted attempts of unfinished trials.
    pub open_lost_attempts: u64,
    /// Total run time of those attempts.
    pub open_lost_time: Duration,
    pub ended: EndedFigures,
}

/// Statistics of ended trials. Part of stored summaries: changing it requires a new format version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedFigures {
    pub succeeded: u64,
    /// Succeeded trials that were stopped early.
    pub stopped_early: u64,
    /// Trials without a usable result, other than early stops.
    pub infeasible: u64,
    /// Trials stopped before they had a result.
    pub stopped_without_result: u64,
    /// Trials with a measurement or a result.
    pub measured: u64,
    /// Infeasible trials by reason; `<trial>` stands for the trial's folder. If there are many reasons, rare ones are
    /// omitted.
    pub reasons: BTreeMap<String, u64>,
    /// Trials that repeat the parameters of one of the first [`MAX_POINTS`] distinct points.
    pub duplicates: u64,
    /// Finite results of the first metric.
    pub finite: u64,
    /// Their minimum and maximum.
    pub range: Option<(f64, f64)>,
    pub measurements: u64,
    /// Lost or preempted attempts.
    pub lost_attempts: u64,
    /// Total run time of those attempts.
    pub lost_time: Duration,
    /// Total time of all trials from start to end.
    pub time: Duration,
    /// Total time of succeeded trials that ran to completion.
    pub time_of_whole: Duration,
    pub time_of_stopped: Duration,
    pub last_end: Option<Timestamp>,
}

impl EndedFigures {
    /// Estimated time saved by early stopping, assuming that stopped trials would have run for the average time of the
    /// others. `None` without a stopped or a completed trial.
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

/// Statistics over part of a study's trials.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CountedTrials {
    pub(super) ended: EndedFigures,
    pub(super) counted: NumberSet,
    /// Parameter digests of the first trials included, at most [`MAX_POINTS`].
    pub(super) points: HashSet<u64>,
}

impl Studies {
    /// Statistics of `study`. Incremental: reads only changes since the previous call or the stored summary.
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
    /// Counts `trial` if it has ended, given the study's first metric. Returns false if it was counted before, possibly
    /// in a different state.
    #[must_use]
    pub(super) fn add(&mut self, trial: &Trial, metric: &str) -> bool {
        if self.counted.contains(trial.id) {
            return false;
        }
        self.count(trial, metric);
        true
    }

    /// Removes a deleted trial. Returns false if a full recount is needed because another trial takes its place in a
    /// statistic.
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
        self.points.remove(&of_point(&deleted.parameters));
        true
    }

    fn count(&mut self, trial: &Trial, metric: &str) {
        if !matches!(trial.state, TrialState::Succeeded | TrialState::Infeasible) {
            return;
        }
        self.counted.insert(trial.id);
        let ended = &mut self.ended;
        let point = of_point(&trial.parameters);
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

/// Replaces `trial` as a path component of `reason`, such as in a job-dir, by `<trial>`, so that the same reason from
/// several trials has the same text.
fn reason_of_any_trial(reason: &str, trial: TrialId) -> Cow<'_, str> {
    let folder = format!("/{trial}");
    if !reason.contains(&folder) {
        return Cow::Borrowed(reason);
    }
    let mut parts = reason.split(&folder);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Only the prefix of a longer name.
        let is_whole = !part.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '-' | '.'));
        text.push_str(if is_whole { "/<trial>" } else { &folder });
        text.push_str(part);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::ParameterValue;
    use tunesmith_contract::samples;
    use tunesmith_domain::{Completion, NewTrial, TrialStart};

    use super::*;

    fn ended(id: u64, value: f64) -> Trial {
        let completion = Completion::Succeeded { final_measurement: samples::measurement(1, value) };
        let new = NewTrial { start: TrialStart::Completed(completion.into()), ..samples::new_trial(id) };
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
