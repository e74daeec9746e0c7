//! The reports of one trial, as every rule reads them.
//!
//! A value that is NaN or infinite counts as never reported; of several reports of one step the last counts; reports
//! need not be sorted.

/// One report of a trial's objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// The trainer's own step, epoch or whatever it counts, or the time since its start in whole units: the abscissa of
    /// the curve, the same for all trials of a study. Not negative in practice, but any number is accepted.
    pub step: i64,
    /// The objective, in the user's own sign.
    pub value: f64,
}

/// The reports of a trial that ended with a usable value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompletedCurve<'a> {
    /// What it reported, in any order.
    pub points: &'a [CurvePoint],
    /// It was stopped by a rule: its last report is not where it would have come to.
    pub stopped_early: bool,
}

/// The finite reports in the order of their steps, the last one of each step.
pub(super) fn cleaned(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut points: Vec<_> = curve.iter().copied().filter(|point| point.value.is_finite()).collect();
    // Stable: reports of one step keep their order. Backwards, so that dropping repetitions keeps the last.
    points.sort_by_key(|point| point.step);
    points.reverse();
    points.dedup_by_key(|point| point.step);
    points.reverse();
    points
}

/// The middle value, or the mean of the two middle ones; `None` of none. No value may be NaN.
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
