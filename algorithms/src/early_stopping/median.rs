//! Median rule: stops a trial that was never as good as the other trials were on average.
//!
//! Source: Golovin et al., Google Vizier: A Service for Black-Box Optimization, KDD 2017, section 3.2.2. A trial is
//! stopped at step `s` if the *best* value it has reported up to `s` is strictly worse than the median, over completed
//! trials, of the *mean* of the values that each of them had reported up to `s`. The paper does not state how much
//! evidence is required; [`MedianRule`] does.

use super::curve::{CurvePoint, cleaned, median, needed_reports};
use super::rule::{EarlyStopDecision, StopEvidence, StoppingRuleError};
use crate::problem::Goal;

/// Default number of reports before a decision. A conservative guess.
const USUAL_REPORTS: usize = 4;

/// The evidence that is required before a trial is stopped.
///
/// ```
/// use tunesmith_algorithms::early_stopping::{CurvePoint, EarlyStopDecision, MedianRule, StopEvidence};
/// use tunesmith_algorithms::problem::Goal;
///
/// let curve = |value| (1..=10).map(move |step| CurvePoint { step, value }).collect::<Vec<_>>();
/// let completed = [0.90, 0.91, 0.92, 0.93, 0.94].map(curve);
/// let rule = MedianRule::default().prepare(Goal::Maximize, completed.iter().map(Vec::as_slice));
///
/// let decision = rule.decide(&curve(0.85)[..4]);
/// assert_eq!(decision, EarlyStopDecision::Stop(StopEvidence::Median { best: 0.85, median: 0.92 }));
/// assert!(!rule.decide(&curve(0.92)[..4]).is_stop(), "a tie does not stop");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianRule {
    min_completed: usize,
    min_reports: Option<usize>,
    min_progress: f64,
}

impl Default for MedianRule {
    /// 5 completed trials, 4 reports or fewer for short curves, a tenth of the usual length. Conservative guesses; Ray
    /// requires 3 trials.
    fn default() -> Self {
        Self { min_completed: 5, min_reports: None, min_progress: 0.1 }
    }
}

impl MedianRule {
    /// Creates a rule that makes decisions once
    /// - at least `min_completed` completed trials (at least 1) reported at or before the candidate's last step,
    /// - the candidate has reported at least `min_reports` times (at least 1; `None`: 4 times, but less often than the
    ///   longest completed curve), and
    /// - its last step is at least `min_progress` (from 0 to 1) of the median last step of the completed trials.
    ///
    /// # Errors
    /// [`StoppingRuleError`] if an argument is out of range.
    pub fn new(min_completed: usize, min_reports: Option<usize>, min_progress: f64) -> Result<Self, StoppingRuleError> {
        if min_completed == 0 || min_reports == Some(0) {
            return Err(StoppingRuleError::NoEvidence);
        }
        if !(0.0..=1.0).contains(&min_progress) {
            return Err(StoppingRuleError::Progress { min_progress });
        }
        Ok(Self { min_completed, min_reports, min_progress })
    }

    /// Number of completed trials required for a decision.
    pub fn min_completed(&self) -> usize {
        self.min_completed
    }

    /// Number of the candidate's reports required for a decision; `None` if it follows the length of the curves.
    pub fn min_reports(&self) -> Option<usize> {
        self.min_reports
    }

    /// Number of the candidate's reports required for a decision, if the longest completed curve has `longest`.
    pub(super) fn needed_reports(&self, longest: Option<usize>) -> usize {
        needed_reports(self.min_reports, USUAL_REPORTS, longest)
    }

    /// Share of the usual length required for a decision.
    pub fn min_progress(&self) -> f64 {
        self.min_progress
    }

    /// Precomputes decisions from the curves of completed trials, in one pass over all points.
    ///
    /// `completed` should contain every trial that ended with a usable value, *including* those that were stopped
    /// early; without them the median would rise with each stop. Trials and reports may be in any order. The last of
    /// several reports of the same step counts. NaN and infinite values are ignored.
    pub fn prepare<'a>(self, goal: Goal, completed: impl IntoIterator<Item = &'a [CurvePoint]>) -> PreparedMedianRule {
        let curves: Vec<_> =
            completed.into_iter().map(RunningMeans::new).filter(|curve| !curve.steps.is_empty()).collect();
        let last_steps = curves.iter().filter_map(|curve| curve.steps.last()).map(|&step| step as f64).collect();
        let first_step = median(last_steps).map(|median_last_step| self.min_progress * median_last_step);
        let longest = curves.iter().map(|curve| curve.steps.len()).max();
        let reports = self.needed_reports(longest);
        PreparedMedianRule { rule: self, goal, curves, first_step, reports }
    }
}

/// Rule with the trials completed so far.
#[derive(Debug, Clone)]
pub struct PreparedMedianRule {
    rule: MedianRule,
    goal: Goal,
    curves: Vec<RunningMeans>,
    /// Step before which no trial is stopped; `None` without completed trials.
    first_step: Option<f64>,
    /// Number of reports before which no trial is stopped.
    reports: usize,
}

impl PreparedMedianRule {
    /// Decides on a running trial by its reports so far, in any order. Treats repeated steps and non-finite values like
    /// [`MedianRule::prepare`]. The same reports give the same decision.
    ///
    /// Takes one binary search in each completed curve.
    pub fn decide(&self, candidate: &[CurvePoint]) -> EarlyStopDecision {
        let candidate = cleaned(candidate);
        let (Some(last), Some(first_step)) = (candidate.last(), self.first_step) else {
            return EarlyStopDecision::TooEarly;
        };
        if candidate.len() < self.reports || (last.step as f64) < first_step {
            return EarlyStopDecision::TooEarly;
        }
        let means: Vec<f64> = self.curves.iter().filter_map(|curve| curve.up_to(last.step)).collect();
        if means.len() < self.rule.min_completed {
            return EarlyStopDecision::TooEarly;
        }
        let values = candidate.iter().map(|point| point.value);
        let best = values.reduce(|best, value| if self.goal.is_better(value, best) { value } else { best });
        match (best, median(means)) {
            (Some(best), Some(median)) if self.goal.is_better(median, best) => {
                EarlyStopDecision::Stop(StopEvidence::Median { best, median })
            }
            (Some(best), Some(median)) => EarlyStopDecision::Continue(StopEvidence::Median { best, median }),
            _ => EarlyStopDecision::TooEarly,
        }
    }
}

/// Completed curve as the mean of the values up to each reported step.
#[derive(Debug, Clone)]
struct RunningMeans {
    /// Strictly increasing.
    steps: Vec<i64>,
    means: Vec<f64>,
}

impl RunningMeans {
    fn new(curve: &[CurvePoint]) -> Self {
        let curve = cleaned(curve);
        let mut mean = 0.0;
        let mut means = Vec::with_capacity(curve.len());
        for (index, point) in curve.iter().enumerate() {
            let count = (index + 1) as f64;
            // Equal values give exactly the same mean, so that ties are exact. Dividing first keeps huge values finite.
            mean += point.value / count - mean / count;
            means.push(mean);
        }
        Self { steps: curve.iter().map(|point| point.step).collect(), means }
    }

    /// Mean of the values reported at or before `step`, if any.
    fn up_to(&self, step: i64) -> Option<f64> {
        let count = self.steps.partition_point(|&other| other <= step);
        self.means[..count].last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports at steps 1, 2, ...
    fn curve(values: &[f64]) -> Vec<CurvePoint> {
        values.iter().zip(1..).map(|(&value, step)| CurvePoint { step, value }).collect()
    }

    fn prepared(goal: Goal, completed: &[Vec<CurvePoint>]) -> PreparedMedianRule {
        MedianRule::default().prepare(goal, completed.iter().map(Vec::as_slice))
    }

    /// The running means at step 4 are 1, 2, 3, 4, 5. The last values are much better and must not count.
    fn five() -> Vec<Vec<CurvePoint>> {
        [
            [1.0, 1.0, 1.0, 1.0, 50.0],
            [0.0, 1.0, 3.0, 4.0, 50.0],
            [0.0, 0.0, 4.0, 8.0, 50.0],
            [1.0, 3.0, 5.0, 7.0, 50.0],
            [2.0, 4.0, 6.0, 8.0, 50.0],
        ]
        .iter()
        .map(|values| curve(values))
        .collect()
    }

    #[test]
    fn best_value_is_compared_with_the_median_of_running_means() {
        let rule = prepared(Goal::Maximize, &five());
        let decide = |values: [f64; 4]| rule.decide(&curve(&values));
        assert_eq!(
            decide([0.0, 2.9, 0.0, 0.0]),
            EarlyStopDecision::Stop(StopEvidence::Median { best: 2.9, median: 3.0 })
        );
        assert_eq!(
            decide([3.1, 0.0, 0.0, 0.0]),
            EarlyStopDecision::Continue(StopEvidence::Median { best: 3.1, median: 3.0 })
        );
        assert_eq!(
            decide([0.0, 0.0, 3.0, 0.0]),
            EarlyStopDecision::Continue(StopEvidence::Median { best: 3.0, median: 3.0 })
        );
    }

    #[test]
    fn negated_values_and_goal_give_the_same_decisions() {
        let negated: Vec<Vec<_>> = five()
            .into_iter()
            .map(|curve| curve.into_iter().map(|point| CurvePoint { value: -point.value, ..point }).collect())
            .collect();
        let rule = prepared(Goal::Minimize, &negated);
        let decide = |values: [f64; 4]| rule.decide(&curve(&values));
        assert_eq!(
            decide([0.0, -2.9, 0.0, 0.0]),
            EarlyStopDecision::Stop(StopEvidence::Median { best: -2.9, median: -3.0 })
        );
        assert!(!decide([0.0, -3.0, 0.0, 0.0]).is_stop());
    }

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let mut six = five();
        six.push(curve(&[6.0; 5]));
        let decision = prepared(Goal::Maximize, &six).decide(&curve(&[3.4; 4]));
        assert_eq!(decision, EarlyStopDecision::Stop(StopEvidence::Median { best: 3.4, median: 3.5 }));
    }

    #[test]
    fn equal_curves_never_stop() {
        for value in [0.1, 1.0 / 3.0, -1e308, 1.7e308, 5e-324] {
            let completed: Vec<_> = (0..7).map(|_| curve(&[value; 40])).collect();
            for goal in [Goal::Maximize, Goal::Minimize] {
                let decision = prepared(goal, &completed).decide(&curve(&[value; 37]));
                assert_eq!(decision, EarlyStopDecision::Continue(StopEvidence::Median { best: value, median: value }));
            }
        }
    }

    #[test]
    fn four_completed_trials_give_no_decision() {
        let bad = curve(&[-9.0; 4]);
        assert_eq!(prepared(Goal::Maximize, &five()[..4]).decide(&bad), EarlyStopDecision::TooEarly);
        assert_eq!(prepared(Goal::Maximize, &[]).decide(&bad), EarlyStopDecision::TooEarly);
        // Five completed trials, but one of them reports only after the candidate's last step.
        let mut late = five();
        late[0] = vec![CurvePoint { step: 5, value: 1.0 }];
        let rule = prepared(Goal::Maximize, &late);
        assert_eq!(rule.decide(&bad), EarlyStopDecision::TooEarly);
        assert!(rule.decide(&curve(&[-9.0; 5])).is_stop());
    }

    #[test]
    fn decisions_need_four_reports_and_a_tenth_of_the_usual_length() {
        let long: Vec<_> = (0..5).map(|_| curve(&[1.0; 100])).collect();
        let rule = prepared(Goal::Maximize, &long);
        assert_eq!(rule.decide(&curve(&[0.0; 3])), EarlyStopDecision::TooEarly);
        assert_eq!(rule.decide(&curve(&[0.0; 9])), EarlyStopDecision::TooEarly);
        assert!(rule.decide(&curve(&[0.0; 10])).is_stop());
        // Three reports are too few, however late.
        let sparse = [10, 20, 90].map(|step| CurvePoint { step, value: 0.0 });
        assert_eq!(rule.decide(&sparse), EarlyStopDecision::TooEarly);
    }

    #[test]
    fn values_that_are_not_finite_are_ignored() {
        let rule = prepared(Goal::Maximize, &five());
        let with_nan = curve(&[f64::NAN, 0.0, 0.0, f64::INFINITY, 0.0]);
        assert_eq!(rule.decide(&with_nan), EarlyStopDecision::TooEarly, "three usable reports");
        assert_eq!(rule.decide(&curve(&[f64::NAN; 9])), EarlyStopDecision::TooEarly);
        let mut completed = five();
        completed[2] = curve(&[0.0, f64::NAN, 0.0, 4.0, 8.0, f64::NEG_INFINITY]);
        // The mean of the third trial at step 4 is now 4/3, so the means are 1, 4/3, 2, 4, 5.
        let decision = prepared(Goal::Maximize, &completed).decide(&curve(&[1.5; 4]));
        assert_eq!(decision, EarlyStopDecision::Stop(StopEvidence::Median { best: 1.5, median: 2.0 }));
        // A trial without usable reports does not count towards the five.
        completed[2] = curve(&[f64::NAN; 5]);
        assert_eq!(prepared(Goal::Maximize, &completed).decide(&curve(&[-9.0; 4])), EarlyStopDecision::TooEarly);
    }

    #[test]
    fn order_has_no_effect_and_the_last_report_of_a_step_counts() {
        let mut shuffled = five();
        shuffled.rotate_left(2);
        for curve in &mut shuffled {
            curve.reverse();
            let first_step = curve.iter().position(|point| point.step == 1).unwrap();
            curve.insert(first_step, CurvePoint { step: 1, value: -1e9 });
        }
        let candidate =
            [(4, 0.0), (1, 2.0), (2, 9.0), (2, 2.9), (3, 1.0)].map(|(step, value)| CurvePoint { step, value });
        let decision = prepared(Goal::Maximize, &shuffled).decide(&candidate);
        assert_eq!(decision, EarlyStopDecision::Stop(StopEvidence::Median { best: 2.9, median: 3.0 }));
    }

    #[test]
    fn short_curves_need_fewer_reports() {
        let three = |value: f64| curve(&[value; 3]);
        let completed: Vec<_> = [1.0, 2.0, 3.0, 4.0, 5.0].map(three).to_vec();
        let stop = EarlyStopDecision::Stop(StopEvidence::Median { best: 2.0, median: 3.0 });
        let rule = prepared(Goal::Maximize, &completed);
        assert_eq!(rule.decide(&three(2.0)), stop);
        assert_eq!(rule.decide(&three(2.0)[..2]), stop);
        assert_eq!(rule.decide(&three(2.0)[..1]), EarlyStopDecision::TooEarly);
        // One long curve shows that the others may continue.
        let mut longer = completed.clone();
        longer[0] = curve(&[1.0; 9]);
        assert_eq!(prepared(Goal::Maximize, &longer).decide(&three(2.0)), EarlyStopDecision::TooEarly);
        // A given number is not adapted.
        let given = |reports| {
            let rule = MedianRule::new(5, Some(reports), 0.1).unwrap();
            rule.prepare(Goal::Maximize, completed.iter().map(Vec::as_slice)).decide(&three(2.0))
        };
        assert_eq!((given(3), given(4)), (stop, EarlyStopDecision::TooEarly));
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        assert_eq!(MedianRule::new(0, None, 0.1), Err(StoppingRuleError::NoEvidence));
        assert_eq!(MedianRule::new(5, Some(0), 0.1), Err(StoppingRuleError::NoEvidence));
        assert_eq!(MedianRule::new(5, None, 1.5), Err(StoppingRuleError::Progress { min_progress: 1.5 }));
        assert!(MedianRule::new(5, None, f64::NAN).is_err());
        assert_eq!(MedianRule::new(5, None, 0.1), Ok(MedianRule::default()));
    }
}
