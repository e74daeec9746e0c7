use schemars::JsonSchema;
use serde::Serialize;
use tunesmith_algorithms::problem::pareto;

use super::reduction::{Point, reduce};
use super::{Axis, Columns, Density, Dimension, Points, Rows};

/// The trials that no other trial dominates, and the others over two metrics.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParetoFront {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The number of trials with all metrics.
    pub measured: usize,
    /// The number of trials on the front of all metrics.
    pub front_size: usize,
    /// The numbers of the trials on the front, by the horizontal axis; at most as many as the limit, evenly.
    pub front: Vec<u64>,
    /// Their values of all metrics.
    pub front_values: Vec<Dimension>,
    /// All trials if `density` is absent, else the extreme ones.
    pub points: Points,
    /// The number of trials in each cell of the plot, if there are more than the limit.
    pub density: Option<Density>,
}

/// Pareto front by all metrics, among those of `rows` that can be the best, over the metrics `x` and `y`, by index,
/// with about `limit` points.
pub fn pareto_front(columns: &Columns, rows: &Rows, [x, y]: [usize; 2], limit: usize) -> ParetoFront {
    let metrics = columns.problem().metrics();
    let values =
        |row: usize| (0..metrics.len()).map(|metric| columns.metric(metric, row)).collect::<Option<Vec<f64>>>();
    let (mut measured, mut points, mut maximized) = (Vec::new(), Vec::new(), Vec::new());
    let mut feasible = Vec::new();
    let all: Vec<usize> = (0..metrics.len()).collect();
    let counts = columns.can_be_best(rows, &all);
    for row in rows.iter() {
        let Some(values) = values(row) else { continue };
        points.push(Point { row: row as u32, x: values[x], y: values[y] });
        measured.push(row);
        if counts(row) {
            maximized
                .push(values.iter().zip(metrics).map(|(value, metric)| metric.goal.to_maximized(*value)).collect());
            feasible.push(row);
        }
    }
    let maximized: Vec<Vec<f64>> = maximized;
    let mut front: Vec<usize> = pareto::front(&maximized).into_iter().map(|index| feasible[index]).collect();
    let front_size = front.len();
    let position = |row: &usize| columns.metric(x, *row).unwrap_or(f64::NAN);
    front.sort_by(|a, b| position(a).total_cmp(&position(b)));
    if front_size > limit {
        let step = |index: usize| index * (front_size - 1) / (limit.max(2) - 1);
        front = (0..limit.max(2)).map(|index| front[step(index)]).collect();
    }
    let on_front: Vec<u32> = front.iter().map(|row| *row as u32).collect();
    let x_axis = Axis::of_metric(&metrics[x].name);
    let (points, density) = reduce(&points, &on_front, &x_axis, limit);
    let front_values = metrics.iter().enumerate().map(|(index, metric)| Dimension {
        axis: Axis::of_metric(&metric.name),
        values: front.iter().map(|row| columns.metric(index, *row)).collect(),
    });
    ParetoFront {
        x: x_axis,
        y: Axis::of_metric(&metrics[y].name),
        measured: measured.len(),
        front_size,
        front_values: front_values.collect(),
        front: front.iter().map(|row| columns.number(*row)).collect(),
        points,
        density,
    }
}
