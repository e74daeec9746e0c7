//! Interpolation between recorded trials: inverse-distance weights over the nearest ones.
//!
//! | symbol | meaning |
//! |---|---|
//! | `d` | dimensions of the encoded space |
//! | `k` | `4 d`, or the number of rows if there are fewer |
//! | `r_i` | distance from the point to the `i`-th nearest row, as in [`super`] |
//! | `R` | `r_k` |
//! | `w_i` | `((R^2 - r_i^2) / R^2)^2 / r_i^2`, the weight of row `i`, divided by the sum over all |
//!
//! Source: D. Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM National Conference
//! 1968, with weights that end at the radius `R` as in R. Franke and G. Nielson, "Smooth interpolation of large sets of
//! scattered data", International Journal for Numerical Methods in Engineering 15 (1980). Departures: the first factor
//! has squared distances, which avoids a root; `R` depends on the point instead of being constant, because the rows are
//! spread over many dimensions.
//!
//! The interpolant equals a row's evaluation at the row, and rows enter and leave with weight zero: for fixed
//! categorical parameters it is continuous. It is a mean with positive weights, so it lies between the worst and the
//! best row, and the best row remains the best known value.
//!
//! `k` was chosen by leave-one-out rank correlation on the committed tables, see docs/experiments/060.

#[cfg(test)]
mod tests;

use crate::problem::{CurvePoint, Evaluation, EvaluationOutcome};

/// Number of rows per dimension of a mean (measurement, docs/experiments/060).
const NEIGHBOURS_PER_DIMENSION: usize = 4;
/// A row whose squared distance is at most this share of `R^2` is used alone: its weight is 10^12, compared with 2 at
/// half of the radius (a guess, which only has to keep weights finite).
const SAME_POINT: f64 = 1e-12;

/// Rows and their shares of the mean, nearest row first. Shares are positive and sum to 1.
///
/// `squared_distances` has one value per row, shape `[rows]`, at least one.
pub(super) fn shares(squared_distances: impl Iterator<Item = f64>, dimensions: usize) -> Vec<(usize, f64)> {
    let mut rows: Vec<(usize, f64)> = squared_distances.enumerate().collect();
    let by_distance = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
    let count = (NEIGHBOURS_PER_DIMENSION * dimensions).clamp(1, rows.len());
    rows.select_nth_unstable_by(count - 1, by_distance);
    rows.truncate(count);
    rows.sort_unstable_by(by_distance);
    let radius = rows[count - 1].1;
    if rows[0].1 <= SAME_POINT * radius {
        return vec![(rows[0].0, 1.0)];
    }
    let weight = |squared: f64| {
        let share = squared / radius;
        (1.0 - share).powi(2) / share
    };
    let total: f64 = rows.iter().map(|(_, squared)| weight(*squared)).sum();
    if total == 0.0 {
        // All rows are equally far and have equal weights.
        return rows.into_iter().map(|(row, _)| (row, 1.0 / count as f64)).collect();
    }
    let weighted = rows.into_iter().map(|(row, squared)| (row, weight(squared) / total));
    weighted.filter(|(_, share)| *share > 0.0).collect()
}

/// Mean of at least one evaluation by shares, which sum to 1.
///
/// Infeasible if infeasible evaluations have more than half of the shares. Values, durations and curves are means over
/// the evaluations with the same outcome. A curve step is the mean over the curves that contain it, at its share of the
/// duration.
pub(super) fn blend(parts: &[(&Evaluation, f64)]) -> Evaluation {
    if let [(only, _)] = parts {
        return (*only).clone();
    }
    let fails = |evaluation: &Evaluation| matches!(evaluation.outcome, EvaluationOutcome::Infeasible { .. });
    let failed: f64 = parts.iter().filter(|(evaluation, _)| fails(evaluation)).map(|(_, share)| share).sum();
    let infeasible = failed > 0.5;
    let alike: Vec<(&Evaluation, f64)> =
        parts.iter().filter(|(evaluation, _)| fails(evaluation) == infeasible).copied().collect();
    let duration_secs = mean(alike.iter().map(|(evaluation, share)| (evaluation.duration_secs, *share)));
    Evaluation { outcome: outcome(&alike), duration_secs, curve: curve(&alike, duration_secs) }
}

/// Outcome of evaluations that all have values or all have none; without values, the reason of the first.
fn outcome(alike: &[(&Evaluation, f64)]) -> EvaluationOutcome {
    let measured: Vec<(&[f64], &[f64], f64)> = alike
        .iter()
        .filter_map(|(evaluation, share)| match &evaluation.outcome {
            EvaluationOutcome::Measured { observed, constraints, .. } => Some((&**observed, &**constraints, *share)),
            EvaluationOutcome::Infeasible { .. } => None,
        })
        .collect();
    let Some((first, limited, _)) = measured.first() else { return alike[0].0.outcome.clone() };
    let values: Vec<f64> = (0..first.len())
        .map(|metric| mean(measured.iter().map(|(values, _, share)| (values[metric], *share))))
        .collect();
    let constraints = (0..limited.len())
        .map(|constraint| mean(measured.iter().map(|(_, values, share)| (values[constraint], *share))))
        .collect();
    EvaluationOutcome::Measured { observed: values.clone(), noiseless: values, constraints }
}

fn curve(alike: &[(&Evaluation, f64)], duration_secs: f64) -> Vec<CurvePoint> {
    let mut steps: Vec<u64> = alike.iter().flat_map(|(e, _)| e.curve.iter().map(|point| point.step)).collect();
    steps.sort_unstable();
    steps.dedup();
    let last = steps.last().map_or(1, |step| *step) as f64;
    let value = |step: u64| {
        let reported = alike.iter().filter_map(|(evaluation, share)| {
            let place = evaluation.curve.binary_search_by_key(&step, |point| point.step).ok()?;
            Some((evaluation.curve[place].value, *share))
        });
        mean(reported)
    };
    let point = |step| CurvePoint { step, elapsed_secs: duration_secs * (step as f64 / last), value: value(step) };
    steps.into_iter().map(point).collect()
}

/// Weighted mean of at least one value, within their range despite rounding.
fn mean(weighted: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let total: f64 = weighted.clone().map(|(_, weight)| weight).sum();
    let smallest = weighted.clone().map(|(value, _)| value).fold(f64::INFINITY, f64::min);
    let largest = weighted.clone().map(|(value, _)| value).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = weighted.map(|(value, weight)| value * (weight / total)).sum();
    sum.max(smallest).min(largest)
}
