use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::{Point, best_count, best_rows, reduce};
use super::{Axis, Columns, Density, Points, Rows};

/// The results over one parameter.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// The horizontal axis.
    pub parameter: Axis,
    /// The vertical axis.
    pub metric: Axis,
    /// The number of trials with a result and this parameter.
    pub measured: usize,
    /// Trials by number; all of them if `density` is absent, else the best and extreme ones.
    pub points: Points,
    /// The number of trials in each cell of the plot, if there are more than the limit.
    pub density: Option<Density>,
}

/// Results of `rows` over a parameter by index, with about `limit` points.
pub fn slice(columns: &Columns, rows: &Rows, metric: usize, parameter: usize, limit: usize) -> Slice {
    let axis = Axis::of_parameter(columns.spec(parameter));
    let point = |row: usize| {
        Some(Point { row: row as u32, x: columns.coordinate(parameter, row)?, y: columns.metric(metric, row)? })
    };
    let points: Vec<Point> = rows.iter().filter_map(point).collect();
    let best = best_rows(columns, rows, metric, best_count(limit));
    let measured = points.len();
    let (points, density) = reduce(&points, &best, &axis, limit);
    Slice {
        parameter: axis,
        metric: Axis::of_metric(&columns.problem().metrics()[metric].name),
        measured,
        points,
        density,
    }
}
