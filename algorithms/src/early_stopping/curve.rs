//! Learning curves, with one treatment of invalid and repeated reports for all rules.
//!
//! Values that are NaN or infinite are ignored. The last of several reports of the same step counts. Reports may be in
//! any order.

/// One report of a trial's objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// The abscissa of the curve: the trainer's step or epoch, or the time since the start of the trial in whole units.
    /// All trials of a study use the same. Usually not negative, but any number is accepted.
    pub step: i64,
    /// The objective, in the units and orientation of the user.
    pub value: f64,
}

/// The curve of a trial that ended with a usable value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompletedCurve<'a> {
    /// The reports, in any order.
    pub points: &'a [CurvePoint],
    /// Whether a rule stopped the trial, so that the last report is not a final value.
    pub stopped_early: bool,
}

/// The finite reports by step, with the last report of each step.
pub(super) fn cleaned(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut points: Vec<_> = curve.iter().copied().filter(|point| point.value.is_finite()).collect();
    // The sort is stable. `dedup` keeps the first of equal steps, so it runs on the reversed list.
    points.sort_by_key(|point| point.step);
    points.reverse();
    points.dedup_by_key(|point| point.step);
    points.reverse();
    points
}

/// The number of reports that a trial needs before a decision: `given`, or `usual`, but fewer than the longest of the completed
/// curves has, `longest`. A decision at the last report would save nothing.
pub(super) fn needed_reports(given: Option<usize>, usual: usize, longest: Option<usize>) -> usize {
    given.unwrap_or_else(|| usual.min(longest.unwrap_or(usize::MAX).saturating_sub(1)).max(1))
}

/// The median: the middle value or the mean of the two middle values; `None` if there are no values. Values must not be
/// NaN.
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
