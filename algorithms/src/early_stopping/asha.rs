//! Asynchronous successive halving: a trial continues past a rung only if it is among the best trials that reached it.
//!
//! Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020 (arXiv 1810.05934), algorithm
//! 2, in its stopping variant: trials are not paused; a trial outside the best `1 / eta` of its rung is stopped. Rungs
//! lie at the steps `r eta^k`, `k = 0, 1, ...`.
//!
//! Departures: the paper decides once, when a trial reaches a rung. Several reports may arrive together, and a decision
//! must not depend on that, so every report is compared at the highest rung that the trial has passed. To compensate,
//! the trial's own value is the best of all its reports so far; the other trials count with their best value at the
//! rung.

use super::curve::{CompletedCurve, CurvePoint, cleaned};
use super::rule::{EarlyStopDecision, StopEvidence, StoppingRuleError};
use crate::problem::Goal;

/// Default first rung as a share of the largest step. A guess: the first rung of Syne Tune and Ray is one step, but
/// most trainers of long runs report more often than a decision is useful.
const FIRST_RUNG_SHARE: f64 = 0.01;

/// The position of the rungs and the share of trials that passes them.
///
/// ```
/// use tunesmith_algorithms::early_stopping::{AshaRule, CompletedCurve, CurvePoint, EarlyStopDecision, StopEvidence};
/// use tunesmith_algorithms::problem::Goal;
///
/// let curve = |value| (1..=9).map(move |step| CurvePoint { step, value }).collect::<Vec<_>>();
/// let curves = [0.90, 0.92].map(curve);
/// let completed = curves.iter().map(|points| CompletedCurve { points, stopped_early: false });
/// let rule = AshaRule::default().prepare(Goal::Maximize, completed);
///
/// // One in three continues past step 3.
/// let stop = EarlyStopDecision::Stop(StopEvidence::Asha { rung: 3, value: 0.91, cutoff: 0.92, compared: 3 });
/// assert_eq!(rule.decide(&curve(0.91)[..3], []), stop);
/// assert!(!rule.decide(&curve(0.92)[..3], []).is_stop(), "a tie does not stop");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AshaRule {
    eta: u32,
    first_rung: Option<i64>,
}

impl Default for AshaRule {
    /// One in three trials continues. The first rung is at one hundredth of the largest reported step, at least 1.
    fn default() -> Self {
        Self { eta: 3, first_rung: None }
    }
}

impl AshaRule {
    /// Creates a rule by which one in `eta` (at least 2) trials continues past each rung. The first rung is at step
    /// `first_rung` (at least 1); `None` places it at one hundredth of the largest step reported by any trial, at least
    /// 1.
    ///
    /// # Errors
    /// [`StoppingRuleError`] if an argument is out of range.
    pub fn new(eta: u32, first_rung: Option<i64>) -> Result<Self, StoppingRuleError> {
        if eta < 2 {
            return Err(StoppingRuleError::Eta { eta });
        }
        match first_rung {
            Some(first_rung) if first_rung < 1 => Err(StoppingRuleError::FirstRung { first_rung }),
            _ => Ok(Self { eta, first_rung }),
        }
    }

    /// Reduction factor: one in this many trials continues past a rung.
    pub fn eta(&self) -> u32 {
        self.eta
    }

    /// Step of the first rung; `None` if it follows the length of the curves.
    pub fn first_rung(&self) -> Option<i64> {
        self.first_rung
    }

    /// Precomputes decisions from the curves of completed trials, including those that were stopped early.
    pub fn prepare<'a>(self, goal: Goal, completed: impl IntoIterator<Item = CompletedCurve<'a>>) -> PreparedAshaRule {
        let curves = completed.into_iter().map(|curve| BestSoFar::new(goal, curve.points));
        PreparedAshaRule { rule: self, goal, curves: curves.filter(|curve| !curve.steps.is_empty()).collect() }
    }
}

/// Rule with the trials completed so far.
#[derive(Debug, Clone)]
pub struct PreparedAshaRule {
    rule: AshaRule,
    goal: Goal,
    curves: Vec<BestSoFar>,
}

impl PreparedAshaRule {
    /// Decides on a running trial by its reports so far, given the completed trials and the `others` that run.
    pub fn decide<'a>(
        &self,
        candidate: &[CurvePoint],
        others: impl IntoIterator<Item = &'a [CurvePoint]>,
    ) -> EarlyStopDecision {
        let candidate = BestSoFar::new(self.goal, candidate);
        let (Some(&last_step), Some(&value)) = (candidate.steps.last(), candidate.best.last()) else {
            return EarlyStopDecision::TooEarly;
        };
        let running: Vec<BestSoFar> = others.into_iter().map(|curve| BestSoFar::new(self.goal, curve)).collect();
        let all = || self.curves.iter().chain(&running);
        let largest = all().filter_map(|curve| curve.steps.last()).fold(last_step, |largest, &step| largest.max(step));
        let Some(rung) = self.highest_rung(last_step, largest) else { return EarlyStopDecision::TooEarly };

        let mut values: Vec<f64> = all().filter_map(|curve| curve.at(rung)).chain([value]).collect();
        let compared = values.len();
        let passing = compared / self.rule.eta as usize;
        if passing == 0 {
            return EarlyStopDecision::TooEarly;
        }
        let best_first = |a: &f64, b: &f64| b.total_cmp(a);
        let (_, &mut cutoff, _) = values.select_nth_unstable_by(passing - 1, best_first);
        let user = |value| self.goal.to_maximized(value);
        let evidence = StopEvidence::Asha { rung, value: user(value), cutoff: user(cutoff), compared };
        if cutoff > value { EarlyStopDecision::Stop(evidence) } else { EarlyStopDecision::Continue(evidence) }
    }

    /// Highest rung `r eta^k` not above `last_step`.
    fn highest_rung(&self, last_step: i64, largest_step: i64) -> Option<i64> {
        let share = (largest_step as f64 * FIRST_RUNG_SHARE).floor() as i64;
        let mut rung = self.rule.first_rung.unwrap_or(share.max(1));
        if rung > last_step {
            return None;
        }
        while let Some(next) = rung.checked_mul(i64::from(self.rule.eta)).filter(|next| *next <= last_step) {
            rung = next;
        }
        Some(rung)
    }
}

/// Curve of the best maximised value up to each reported step.
#[derive(Debug, Clone)]
struct BestSoFar {
    /// Strictly increasing.
    steps: Vec<i64>,
    best: Vec<f64>,
}

impl BestSoFar {
    fn new(goal: Goal, curve: &[CurvePoint]) -> Self {
        let curve = cleaned(curve);
        let mut best = f64::NEG_INFINITY;
        let mut so_far = |point: &CurvePoint| {
            best = best.max(goal.to_maximized(point.value));
            best
        };
        Self { best: curve.iter().map(&mut so_far).collect(), steps: curve.iter().map(|point| point.step).collect() }
    }

    /// Best value at the first report at or after `rung`, if any.
    fn at(&self, rung: i64) -> Option<f64> {
        self.best.get(self.steps.partition_point(|&step| step < rung)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports at steps 1, 2, ...
    fn curve(values: &[f64]) -> Vec<CurvePoint> {
        values.iter().zip(1..).map(|(&value, step)| CurvePoint { step, value }).collect()
    }

    fn prepared(goal: Goal, completed: &[Vec<CurvePoint>]) -> PreparedAshaRule {
        let curves = completed.iter().map(|points| CompletedCurve { points, stopped_early: false });
        AshaRule::default().prepare(goal, curves)
    }

    /// Values at the rungs 1, 3, 9: (1, 3, 9), (2, 4, 4), (3, 3, 3), (0, 2) stopped at step 3, (-1) stopped at step 1.
    fn five() -> Vec<Vec<CurvePoint>> {
        vec![
            curve(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
            curve(&[2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
            curve(&[3.0; 9]),
            curve(&[0.0, 1.0, 2.0]),
            curve(&[-1.0]),
        ]
    }

    #[test]
    fn best_third_of_a_rung_continues() {
        let rule = prepared(Goal::Maximize, &five());
        let decide = |values: &[f64]| rule.decide(&curve(values), []);
        // Six trials at rung 1: two continue. The values of the others are 3, 2, 1, 0, -1.
        let stop = EarlyStopDecision::Stop(StopEvidence::Asha { rung: 1, value: 1.9, cutoff: 2.0, compared: 6 });
        assert_eq!(decide(&[1.9]), stop);
        assert_eq!(
            decide(&[2.0]),
            EarlyStopDecision::Continue(StopEvidence::Asha { rung: 1, value: 2.0, cutoff: 2.0, compared: 6 })
        );
        // Between rungs, the trial's own best value counts.
        assert!(!decide(&[0.0, 2.0]).is_stop());
        // Five trials at rung 3: one continues. The values of the others are 4, 3, 3, 2.
        let stop = EarlyStopDecision::Stop(StopEvidence::Asha { rung: 3, value: 3.5, cutoff: 4.0, compared: 5 });
        assert_eq!(decide(&[3.5, 3.0, 3.0]), stop);
        assert!(!decide(&[9.0, 3.0, 3.0]).is_stop());
    }

    #[test]
    fn negated_values_and_goal_give_the_same_decisions() {
        let negate = |curve: Vec<CurvePoint>| -> Vec<CurvePoint> {
            curve.into_iter().map(|point| CurvePoint { value: -point.value, ..point }).collect()
        };
        let rule = prepared(Goal::Minimize, &five().into_iter().map(negate).collect::<Vec<_>>());
        let stop = EarlyStopDecision::Stop(StopEvidence::Asha { rung: 3, value: -3.5, cutoff: -4.0, compared: 5 });
        assert_eq!(rule.decide(&curve(&[-3.5, -3.0, -3.0]), []), stop);
        assert!(!rule.decide(&curve(&[-4.0, 0.0, 0.0]), []).is_stop());
    }

    #[test]
    fn fewer_than_eta_trials_give_no_decision() {
        let two = &five()[..1];
        assert_eq!(prepared(Goal::Maximize, two).decide(&curve(&[-9.0; 9]), []), EarlyStopDecision::TooEarly);
        assert_eq!(prepared(Goal::Maximize, &five()).decide(&[], []), EarlyStopDecision::TooEarly);
        assert_eq!(prepared(Goal::Maximize, &five()).decide(&curve(&[f64::NAN; 9]), []), EarlyStopDecision::TooEarly);
        // A running trial is the third.
        let other = curve(&[0.0; 9]);
        assert!(prepared(Goal::Maximize, two).decide(&curve(&[-9.0; 9]), [&*other]).is_stop());
    }

    #[test]
    fn default_first_rung_is_a_hundredth_of_the_largest_step() {
        let long = |value: f64| (1..=500).map(|step| CurvePoint { step, value }).collect::<Vec<_>>();
        let completed: Vec<_> = [1.0, 2.0, 3.0].map(long).to_vec();
        let rule = prepared(Goal::Maximize, &completed);
        assert_eq!(rule.decide(&long(0.0)[..4], []), EarlyStopDecision::TooEarly);
        assert!(matches!(
            rule.decide(&long(0.0)[..5], []),
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 5, .. })
        ));
        assert!(matches!(
            rule.decide(&long(0.0)[..44], []),
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 15, .. })
        ));
        assert!(matches!(
            rule.decide(&long(0.0)[..45], []),
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 45, .. })
        ));
        let given = AshaRule::new(4, Some(100)).unwrap();
        let curves = completed.iter().map(|points| CompletedCurve { points, stopped_early: false });
        let rule = given.prepare(Goal::Maximize, curves);
        assert_eq!(rule.decide(&long(0.0)[..99], []), EarlyStopDecision::TooEarly);
        assert!(matches!(
            rule.decide(&long(0.0)[..399], []),
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 100, .. })
        ));
        assert!(matches!(
            rule.decide(&long(0.0)[..400], []),
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 400, .. })
        ));
    }

    #[test]
    fn first_report_at_or_after_a_rung_counts() {
        let sparse = |value: f64| vec![CurvePoint { step: 7, value }, CurvePoint { step: 20, value: value + 1.0 }];
        let rule = prepared(Goal::Maximize, &[sparse(1.0), sparse(2.0), sparse(3.0)]);
        // At rung 3 the first report of each trial counts.
        let decision = rule.decide(&sparse(2.5)[..1], []);
        assert_eq!(
            decision,
            EarlyStopDecision::Stop(StopEvidence::Asha { rung: 3, value: 2.5, cutoff: 3.0, compared: 4 })
        );
    }

    #[test]
    fn three_reports_are_enough_where_trials_have_three() {
        for steps in [[1, 2, 3], [1000, 2000, 3000], [0, 1, 2]] {
            let three = |value: f64| steps.map(|step| CurvePoint { step, value }).to_vec();
            let rule = prepared(Goal::Maximize, &[three(1.0), three(2.0)]);
            assert!(rule.decide(&three(0.0)[..2], []).is_stop(), "{steps:?}");
            assert!(!rule.decide(&three(2.5)[..2], []).is_stop(), "{steps:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        assert_eq!(AshaRule::new(1, None), Err(StoppingRuleError::Eta { eta: 1 }));
        assert_eq!(AshaRule::new(3, Some(0)), Err(StoppingRuleError::FirstRung { first_rung: 0 }));
        assert_eq!(AshaRule::new(3, None), Ok(AshaRule::default()));
    }
}
