//! Results that are too good to be true: a defect that reports 0 for a loss looks like a breakthrough.
//!
//! A result is suspicious if its distance to the best of the others exceeds several times the range of the others. Progress
//! on a logarithmic scale is no such result: an improvement cannot exceed the distance to the optimum, which the range of
//! the earlier results contains. A result very near to a suspicious one that is also far better than the others confirms
//! it.

use crate::encoding::{Encoding, FeatureKind};

/// Number of results from which one can be suspicious: the range of fewer is no scale (measured, see
/// docs/experiments/021).
const FEWEST: usize = 8;
/// Distance to the other results from which a result is suspicious, in their ranges (measured, see
/// docs/experiments/021).
const SUSPICIOUS_RANGES: f64 = 3.0;
/// Divisor of the number of results that gives the maximum number of suspicious ones, and the number of the worst results
/// outside the range. A guess.
const SHARE: usize = 10;
/// Distance of a confirming trial along each feature, in the unit cube. A guess: smaller than any peak that a search could
/// use.
pub(crate) const CONFIRMING_STEP: f64 = 1e-3;
/// Share of the distance between a suspicious result and the others that a confirming one covers. A guess.
const CONFIRMING_SHARE: f64 = 0.1;

/// A result that is too good to be true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Suspect {
    /// Index of the result.
    pub(crate) index: usize,
    /// Distance to the best of the other results, in their ranges.
    pub(crate) ranges: f64,
}

/// Suspicious results among `values` (maximised, finite) at `points`, best first, without those that another one
/// confirms.
pub(crate) fn suspects(encoding: &Encoding, points: &[&[f64]], values: &[f64]) -> Vec<Suspect> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if values.len() < FEWEST || largest == 0.0 {
        return Vec::new();
    }
    let value = |index: usize| values[index] / largest;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let most = (values.len() / SHARE).max(1);
    let Some((count, best, range)) = (1..=most).rev().find_map(|count| {
        let others = &order[count..];
        let (best, worst) = (value(others[0]), value(others[others.len() - 1 - others.len() / SHARE]));
        let (range, gap) = (best - worst, value(order[count - 1]) - best);
        (range > 0.0 && gap > SUSPICIOUS_RANGES * range).then_some((count, best, range))
    }) else {
        return Vec::new();
    };
    let is_confirmed = |suspect: usize| {
        let least = best + CONFIRMING_SHARE * (value(suspect) - best);
        order.iter().any(|&other| {
            other != suspect && value(other) >= least && confirms(encoding, points[other], points[suspect])
        })
    };
    let unconfirmed = order[..count].iter().copied().filter(|&suspect| !is_confirmed(suspect));
    unconfirmed.map(|index| Suspect { index, ranges: (value(index) - best) / range }).collect()
}

/// Whether `point` is near enough to `suspect` to confirm its result.
pub(crate) fn confirms(encoding: &Encoding, point: &[f64], suspect: &[f64]) -> bool {
    encoding.features().iter().zip(point).zip(suspect).all(|((feature, a), b)| match feature.kind {
        FeatureKind::Categorical { .. } => a == b,
        _ => (a - b).abs() <= 2.0 * CONFIRMING_STEP,
    })
}
