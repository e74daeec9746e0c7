//! Learning curves of a sample of trials.

use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::Measurement;

use super::reduction::sample;
use super::{Axis, Columns, Rows};

/// Maximum useful number of points per curve beside others.
const POINTS_OF_CURVE: usize = 50;

/// The learning curves of some trials.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Curves {
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials with measurements.
    pub measured: usize,
    /// The curves: of the best trials, best first, then of others evenly by their results, then of trials without a result.
    pub curves: Vec<Curve>,
}

/// A learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Curve {
    /// The number of the trial.
    pub trial: u64,
    /// The number of trials with similar results that it stands for.
    pub stands_for: u32,
    /// The number of measurements of the metric.
    pub measurements: usize,
    /// Steps, increasing.
    pub steps: Vec<i64>,
    /// The values at the steps.
    pub values: Vec<f64>,
}

/// Trials to show curves of, with the number of trials each stands for; `limit` is the total number of points.
pub fn trials_of_curves(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> Vec<(TrialId, u32)> {
    let count = (limit / POINTS_OF_CURVE).max(1);
    let sample = sample(columns, rows, metric, count);
    let chosen = sample.rows.iter().zip(&sample.stands_for).map(|(row, count)| (*row as usize, *count));
    let without_result = rows.iter().filter(|row| columns.metric(metric, *row).is_none());
    let all = chosen.chain(without_result.map(|row| (row, 1)).take(count));
    let measured = all.filter(|(row, _)| columns.measurement_count(*row) > 0).take(count);
    measured.map(|(row, stands_for)| (TrialId(columns.number(row)), stands_for)).collect()
}

/// Curves of the trials chosen by [`trials_of_curves`], given with their measurements.
pub fn curves(
    columns: &Columns,
    rows: &Rows,
    metric: usize,
    chosen: &[(TrialId, u32, Vec<Measurement>)],
    limit: usize,
) -> Curves {
    let name = &columns.problem().metrics()[metric].name;
    let points = (limit / chosen.len().max(1)).max(2);
    Curves {
        metric: Axis::of_metric(name),
        measured: rows.iter().filter(|row| columns.measurement_count(*row) > 0).count(),
        curves: chosen
            .iter()
            .map(|(trial, count, measurements)| curve(*trial, *count, measurements, name, points))
            .collect(),
    }
}

fn curve(trial: TrialId, stands_for: u32, measurements: &[Measurement], metric: &str, limit: usize) -> Curve {
    let mut points: Vec<&Measurement> = measurements.iter().collect();
    points.sort_by(|a, b| a.curve_order(b));
    let value = |point: &&Measurement| Some((point.step, point.value(metric).filter(|value| value.is_finite())?));
    let all: Vec<(i64, f64)> = points.iter().filter_map(value).collect();
    let total = all.len();
    let kept = if total <= limit { all } else { extremes(&all, limit) };
    let (steps, values) = kept.into_iter().unzip();
    Curve { trial: trial.0, stands_for, measurements: total, steps, values }
}

/// At most `limit` of `points`: the first, the last, and the minimum and maximum per interval.
fn extremes(points: &[(i64, f64)], limit: usize) -> Vec<(i64, f64)> {
    let spans = ((limit.saturating_sub(2)) / 2).max(1);
    let mut kept = vec![0, points.len() - 1];
    for span in 0..spans {
        let range = span * points.len() / spans..(span + 1) * points.len() / spans;
        let by_value = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        kept.extend(range.clone().min_by(by_value));
        kept.extend(range.max_by(by_value));
    }
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| points[index]).collect()
}
