//! Learning curves, with the same treatment of invalid and repeated reports for all rules.
//!
//! NaN and infinite values are ignored. The last of several reports of the same step counts. Reports may be in any
//! order.

/// Report of a trial's objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Abscissa of the curve: the trainer's step or epoch, or the time since the start of the trial in whole units. The
    /// same for all trials of a study. Usually not negative, but any number is accepted.
    pub step: i64,
    /// Objective, in the units and orientation of the user.
    pub value: f64,
}

/// Curve of a trial that ended with a usable value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompletedCurve<'a> {
    /// Reports, in any order.
    pub points: &'a [CurvePoint],
    /// Whether a rule stopped the trial, so that the last report is not a final value.
    pub stopped_early: bool,
}

/// Finite reports by step, the last one for each step.
pub(super) fn cleaned(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut points: Vec<_> = curve.iter().copied().filter(|point| point.value.is_finite()).collect();
    // The sort is stable. `dedup` keeps the first of equal steps, so it runs on the reversed list.
    points.sort_by_key(|point| point.step);
    points.reverse();
    points.dedup_by_key(|point| point.step);
    points.reverse();
    points
}

/// Number of reports required before a decision: `given`, or `usual`, but fewer than the `longest` completed curve has.
/// A decision at the last report would save nothing.
pub(super) fn needed_reports(given: Option<usize>, usual: usize, longest: Option<usize>) -> usize {
    given.unwrap_or_else(|| usual.min(longest.unwrap_or(usize::MAX).saturating_sub(1)).max(1))
}

/// Middle value, or the mean of the two middle values; `None` without values. Values must not be NaN.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if !even {
        return Some(upper);
    }
    below.iter().copied().max_by(f64::total_cmp).map(|lower| lower.midpoint(upper))
}
