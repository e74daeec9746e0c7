use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::{Point, best_count, best_rows, reduce};
use super::{Axis, Columns, Density, Points, Rows};

/// The results in the order of the trials, and the best so far.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The vertical axis.
    pub metric: Axis,
    /// Whether higher is better.
    pub is_maximized: bool,
    /// The number of trials with a result.
    pub measured: usize,
    /// Trials by number; all of them if `density` is absent, else the best and extreme ones.
    pub points: Points,
    /// The number of trials in each cell of the plot, if there are more than the limit.
    pub density: Option<Density>,
    /// The trials that were better than all before them, by number, without those that violate a constraint, and without those
    /// that were stopped early if others were not. The first and the last ones if there are many.
    pub improvements: Improvement,
}

/// Trials that were better than all before, in parallel lists.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Improvement {
    /// The numbers of the trials.
    pub trials: Vec<u64>,
    /// Their results.
    pub values: Vec<f64>,
    /// The number of such trials.
    pub total: usize,
}

/// History of `rows` by a metric, with about `limit` points.
pub fn history(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> History {
    let goal = columns.goal(metric);
    let (mut points, mut improvements) = (Vec::new(), Vec::new());
    let mut best = f64::INFINITY;
    let metrics = [metric];
    let counts = columns.can_be_best(rows, &metrics);
    for row in rows.iter() {
        let Some(value) = columns.metric(metric, row) else { continue };
        points.push(Point { row: row as u32, x: columns.number(row) as f64, y: value });
        if goal.loss(value) < best && counts(row) {
            best = goal.loss(value);
            improvements.push((columns.number(row), value));
        }
    }
    let best = best_rows(columns, rows, metric, best_count(limit));
    let measured = points.len();
    let (points, density) = reduce(&points, &best, &Axis::of_trials(measured), limit);
    History {
        metric: Axis::of_metric(&columns.problem().metrics()[metric].name),
        is_maximized: goal.to_maximized(1.0) > 0.0,
        measured,
        points,
        density,
        improvements: thinned(&improvements, (limit / 4).max(2)),
    }
}

/// At most `limit` of `improvements`, evenly, including the first and the last.
fn thinned(improvements: &[(u64, f64)], limit: usize) -> Improvement {
    let total = improvements.len();
    let count = total.min(limit);
    let at = |index: usize| if count < 2 { 0 } else { index * (total - 1) / (count - 1) };
    let (trials, values) = (0..count).map(|index| improvements[at(index)]).unzip();
    Improvement { trials, values, total }
}
