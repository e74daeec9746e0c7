//! Which report becomes a trial's result.

use tunesmith_algorithms::problem::Goal;

use tunesmith_domain::{FinalMeasurement, Measurement};

/// The measurement of `tag` that is the trial's result, or none if no measurement bears the tag.
///
/// - [`FinalMeasurement::Last`]: the highest step; among equal steps the latest wall time; among equal times the one
///   that comes later in `measurements`, which are in order of arrival.
/// - [`FinalMeasurement::Best`]: the best value by `goal`; among equal values the first along the curve. NaN counts
///   only when there is nothing else: then the last is returned.
///
/// The value may be NaN or infinite: what that means for the trial is for the caller to say.
pub fn select_final<'a>(
    measurements: &'a [Measurement],
    tag: &str,
    goal: Goal,
    rule: FinalMeasurement,
) -> Option<&'a Measurement> {
    let reports = measurements.iter().filter_map(|report| report.value(tag).map(|value| (report, value)));
    // `max_by` takes the later of equals.
    let last = reports.clone().max_by(|(a, _), (b, _)| a.curve_order(b));
    let chosen = match rule {
        FinalMeasurement::Last => last,
        FinalMeasurement::Best => reports
            .filter(|(_, value)| !value.is_nan())
            .reduce(|best, next| {
                let earlier_equal = next.1 == best.1 && next.0.curve_order(best.0).is_lt();
                if goal.is_better(next.1, best.1) || earlier_equal { next } else { best }
            })
            .or(last),
    };
    chosen.map(|(report, _)| report)
}
