use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::{best_count, best_rows};
use super::values::bin;
use super::{Axis, AxisKind, Columns, Points, Rows};

/// The results in each cell of a grid over two parameters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contour {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials with a result and both parameters.
    pub measured: usize,
    /// The edges of the cells along the horizontal axis, increasing.
    pub x_edges: Vec<f64>,
    /// The edges of the cells along the vertical axis, increasing.
    pub y_edges: Vec<f64>,
    /// The number of trials in each cell, one row of cells after the other, from the lowest row.
    pub counts: Vec<u32>,
    /// The mean result in each cell; null without trials.
    pub means: Vec<Option<f64>>,
    /// The best result in each cell; null without trials.
    pub best: Vec<Option<f64>>,
    /// The best trials, best first.
    pub points: Points,
}

/// Results of `rows` over the parameters `x` and `y`, by index, in at most `limit` cells.
pub fn contour(columns: &Columns, rows: &Rows, metric: usize, [x, y]: [usize; 2], limit: usize) -> Contour {
    let [x_axis, y_axis] = [x, y].map(|index| Axis::of_parameter(columns.spec(index)));
    let point =
        |row: usize| Some([columns.coordinate(x, row)?, columns.coordinate(y, row)?, columns.metric(metric, row)?]);
    let found: Vec<[f64; 3]> = rows.iter().filter_map(point).collect();
    // Few trials share few cells, so that neighbours meet.
    let cells = limit.min(found.len()).max(1);
    let bins = |axis: &Axis, other: &Axis, index: usize| {
        let most = match (axis.kind, other.kind) {
            (_, AxisKind::Level) => cells / other.levels.len().max(1),
            _ => (cells as f64).sqrt() as usize,
        };
        axis.edges(found.iter().map(|point| point[index]), most.clamp(1, 100))
    };
    let (x_edges, y_edges) = (bins(&x_axis, &y_axis, 0), bins(&y_axis, &x_axis, 1));
    let width = x_edges.len() - 1;
    let size = width * (y_edges.len() - 1);
    let (mut counts, mut means, mut best) = (vec![0_u32; size], vec![0.0; size], vec![None; size]);
    let goal = columns.goal(metric);
    for [x, y, value] in &found {
        let cell = bin(&y_edges, *y) * width + bin(&x_edges, *x);
        counts[cell] += 1;
        // Incremental, since a sum may overflow; the rounded mean may overflow as well.
        let count = f64::from(counts[cell]);
        let mean: f64 = means[cell] * ((count - 1.0) / count) + value / count;
        means[cell] = mean.clamp(f64::MIN, f64::MAX);
        if best[cell].is_none_or(|best| goal.is_better(*value, best)) {
            best[cell] = Some(*value);
        }
    }
    let means = means.into_iter().zip(&counts).map(|(mean, count)| (*count > 0).then_some(mean)).collect();
    let mut points = Points::default();
    for row in best_rows(columns, rows, metric, best_count(limit)) {
        if let Some([x, y, _]) = point(row as usize) {
            points.trials.push(columns.number(row as usize));
            points.x.push(x);
            points.y.push(y);
        }
    }
    let metric = Axis::of_metric(&columns.problem().metrics()[metric].name);
    Contour { x: x_axis, y: y_axis, metric, measured: found.len(), x_edges, y_edges, counts, means, best, points }
}
