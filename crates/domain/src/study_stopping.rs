//! Rules that end a whole study: time limits, or lack of progress.

use std::time::Duration;

use jiff::Timestamp;
use tunesmith_algorithms::problem::{Goal, TrialId};
use tunesmith_algorithms::rounded::Rounded;

/// Conditions that end the supply of trials. Running trials continue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StudyStopping {
    /// Earliest end.
    pub min_time: Option<StudyTime>,
    /// Latest end.
    pub max_time: Option<StudyTime>,
    /// Ended trials required before any rule applies.
    pub min_trials: Option<u64>,
    /// Ends the study after this many consecutive ended trials without an improvement; at least 1.
    pub max_trials_without_progress: Option<u64>,
    /// Ends the study after this time without an improvement.
    pub max_time_without_progress: Option<Duration>,
    /// Ends the study when the expected improvement of the first metric by the best further trial falls below this
    /// value, above 0.
    pub min_expected_gain: Option<f64>,
}

/// Time limit of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyTime {
    /// Since the creation of the study.
    After(Duration),
    At(Timestamp),
}

impl StudyTime {
    /// Whether the time has passed at `now`, for a study created at `created`.
    fn is_over(self, created: Timestamp, now: Timestamp) -> bool {
        match self {
            Self::After(duration) => elapsed(created, now) >= duration,
            Self::At(time) => now >= time,
        }
    }
}

/// End time and first metric of an ended trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndedTrial {
    pub id: TrialId,
    pub end_time: Timestamp,
    /// Value of the first metric; `None` for a trial that has no result, violates a constraint, or was stopped early.
    pub value: Option<f64>,
}

impl StudyStopping {
    /// Whether the minimum time or the minimum number of trials rules out an end at `now`.
    pub fn is_too_early(&self, ended: usize, created: Timestamp, now: Timestamp) -> bool {
        let is_before = |time: Option<StudyTime>| time.is_some_and(|time| !time.is_over(created, now));
        is_before(self.min_time) || self.min_trials.is_some_and(|least| (ended as u64) < least)
    }

    /// Reason to end the study at `now`, if any. `gain` is the expected improvement by a further trial, if known.
    pub fn reason(
        &self,
        progress: &StudyProgress,
        gain: Option<f64>,
        created: Timestamp,
        now: Timestamp,
    ) -> Option<String> {
        if self.is_too_early(progress.ended, created, now) {
            return None;
        }
        if let Some(limit) = self.max_time.filter(|limit| limit.is_over(created, now)) {
            return Some(match limit {
                StudyTime::After(limit) => format!("the study has run for {} s", limit.as_secs_f64()),
                StudyTime::At(time) => format!("the end time {time} of the study is reached"),
            });
        }
        // Without any result, the rules on failed trials apply.
        let (best, since) = (progress.best?, progress.since);
        if self.max_trials_without_progress.is_some_and(|most| since >= most) {
            let trials = if since == 1 { "trial was" } else { "trials in a row were" };
            return Some(format!("{since} {trials} not better than trial {}", best.id));
        }
        if let Some(limit) = self.max_time_without_progress.filter(|limit| elapsed(best.end_time, now) >= *limit) {
            return Some(format!("no trial was better than trial {} for {} s", best.id, limit.as_secs_f64()));
        }
        let (gain, least) = gain.zip(self.min_expected_gain)?;
        (gain < least)
            .then(|| format!("a further trial is expected to gain {}, less than {}", Rounded(gain), Rounded(least)))
    }
}

/// Best trial so far, with trials in the order of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StudyProgress {
    /// Number of ended trials.
    ended: usize,
    /// Earliest of the best trials; `None` before the first result.
    best: Option<EndedTrial>,
    /// Number of trials that ended after the best one.
    since: u64,
    /// End time and number of the last trial.
    last: Option<(Timestamp, TrialId)>,
}

impl StudyProgress {
    /// Progress after `trials`, in any order.
    pub fn of(goal: Goal, mut trials: Vec<EndedTrial>) -> Self {
        trials.sort_unstable_by_key(|trial| (trial.end_time, trial.id));
        let progress = trials.into_iter().try_fold(Self::default(), |progress, trial| progress.with(goal, trial));
        progress.unwrap_or_default()
    }

    /// Number of ended trials.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Progress after another trial; `None` if `trial` does not end after the last one.
    pub fn with(self, goal: Goal, trial: EndedTrial) -> Option<Self> {
        let end = (trial.end_time, trial.id);
        if self.last.is_some_and(|last| end <= last) {
            return None;
        }
        let best = self.best.and_then(|best| best.value);
        let value = trial.value.filter(|value| !value.is_nan());
        let is_best = value.is_some_and(|value| best.is_none_or(|best| goal.is_better(value, best)));
        let (best, since) = if is_best { (Some(trial), 0) } else { (self.best, self.since + 1) };
        Some(Self { ended: self.ended + 1, best, since, last: Some(end) })
    }
}

/// Time from `start` to `end`; zero if the clock was set back.
fn elapsed(start: Timestamp, end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(start)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Trials that end at seconds 1, 2, ...
    fn trials(values: &[f64]) -> Vec<EndedTrial> {
        let trial = |(number, value): (i64, &f64)| EndedTrial {
            id: TrialId(number.cast_unsigned()),
            end_time: at(number),
            value: value.is_finite().then_some(*value),
        };
        (1..).zip(values).map(trial).collect()
    }

    fn reason(rules: &StudyStopping, values: &[f64], now: i64) -> Option<String> {
        rules.reason(&StudyProgress::of(Goal::Minimize, trials(values)), None, at(0), at(now))
    }

    #[test]
    fn study_ends_after_trials_without_progress() {
        let rules = StudyStopping { max_trials_without_progress: Some(3), ..StudyStopping::default() };
        assert_eq!(reason(&rules, &[5.0, 4.0, 4.0, 6.0], 9), None);
        // Trials without a result or with an equal value are no progress.
        let expected = Some("3 trials in a row were not better than trial 2".to_owned());
        assert_eq!(reason(&rules, &[5.0, 4.0, 4.0, 6.0, f64::NAN], 9), expected);
        assert_eq!(reason(&rules, &[5.0, 4.0, 4.0, 6.0, 3.0], 9), None);
        assert_eq!(reason(&rules, &[f64::NAN; 9], 9), None, "there is no result");
        let least = StudyStopping { min_trials: Some(6), ..rules.clone() };
        assert_eq!(reason(&least, &[5.0, 4.0, 4.0, 6.0, f64::NAN], 9), None);
        // Trials count in the order of their ends, not of their numbers.
        let mut late = trials(&[1.0, 2.0, 3.0, 4.0]);
        late[0].end_time = at(9);
        assert_eq!(rules.reason(&StudyProgress::of(Goal::Minimize, late), None, at(0), at(9)), None);
        let maximized = StudyProgress::of(Goal::Maximize, trials(&[5.0, 4.0, 4.0, 6.0, 5.0]));
        assert_eq!(rules.reason(&maximized, None, at(0), at(9)), None);
    }

    #[test]
    fn progress_is_added_to_in_the_order_of_the_ends() {
        let all = trials(&[5.0, 4.0, f64::NAN, 6.0]);
        let progress = StudyProgress::of(Goal::Minimize, all[..2].to_vec());
        let progress = progress.with(Goal::Minimize, all[2]).and_then(|two| two.with(Goal::Minimize, all[3])).unwrap();
        assert_eq!(progress, StudyProgress::of(Goal::Minimize, all.iter().rev().copied().collect()));
        assert_eq!(progress.with(Goal::Minimize, all[3]), None);
        assert_eq!(progress.with(Goal::Minimize, all[0]), None);
    }

    #[test]
    fn study_ends_after_time_without_progress() {
        let limit = Some(Duration::from_secs(10));
        let rules = StudyStopping { max_time_without_progress: limit, ..StudyStopping::default() };
        assert_eq!(reason(&rules, &[5.0, 4.0, 6.0], 11), None);
        assert_eq!(reason(&rules, &[5.0, 4.0, 6.0], 12), Some("no trial was better than trial 2 for 10 s".to_owned()));
        assert_eq!(reason(&rules, &[], 99), None);
    }

    #[test]
    fn study_ends_when_little_is_to_be_gained() {
        let rules = StudyStopping { min_expected_gain: Some(0.25), min_trials: Some(2), ..StudyStopping::default() };
        let reason =
            |values, gain| rules.reason(&StudyProgress::of(Goal::Minimize, trials(values)), gain, at(0), at(9));
        assert_eq!(reason(&[2.0, 1.0], None), None);
        assert_eq!(reason(&[2.0, 1.0], Some(0.25)), None);
        assert_eq!(reason(&[2.0], Some(0.125)), None);
        let expected = "a further trial is expected to gain 0.125, less than 0.25";
        assert_eq!(reason(&[2.0, 1.0], Some(0.125)), Some(expected.to_owned()));
    }

    #[test]
    fn study_ends_at_its_time_and_not_before_another_one() {
        let limit = |time| StudyStopping { max_time: Some(time), ..StudyStopping::default() };
        let after = limit(StudyTime::After(Duration::from_millis(2500)));
        assert_eq!(reason(&after, &[], 2), None);
        assert_eq!(reason(&after, &[], 3), Some("the study has run for 2.5 s".to_owned()));
        let end = limit(StudyTime::At(at(7)));
        assert_eq!(reason(&end, &[1.0], 6), None);
        let expected = Some("the end time 1970-01-01T00:00:07Z of the study is reached".to_owned());
        assert_eq!(reason(&end, &[1.0], 7), expected);
        let not_before = StudyStopping { min_time: Some(StudyTime::At(at(8))), ..end };
        assert_eq!(reason(&not_before, &[1.0], 7), None);
        assert_eq!(reason(&not_before, &[1.0], 8), expected);
    }
}
