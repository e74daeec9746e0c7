use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::sample;
use super::{Axis, Columns, Points, Rows};

/// Trials over two parameters, with their ranks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rank {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The number of trials with a result.
    pub measured: usize,
    /// The trials, best first, that have both parameters.
    pub points: Points,
    /// For each point, the share of trials that are better, from 0 for the best to below 1.
    pub ranks: Vec<f64>,
    /// For each point, the number of trials with similar results that it stands for; 1 for the best.
    pub stands_for: Vec<u32>,
}

/// Ranks of `rows` by the metric over the parameters `x` and `y`, by index; at most `limit` points.
pub fn rank(columns: &Columns, rows: &Rows, metric: usize, [x, y]: [usize; 2], limit: usize) -> Rank {
    let sample = sample(columns, rows, metric, limit);
    let axis = |index: usize| Axis::of_parameter(columns.spec(index));
    let mut rank = Rank {
        x: axis(x),
        y: axis(y),
        measured: sample.total,
        points: Points::default(),
        ranks: Vec::new(),
        stands_for: Vec::new(),
    };
    for ((row, stands_for), position) in sample.rows.iter().zip(&sample.stands_for).zip(&sample.ranks) {
        let row = *row as usize;
        let (Some(x), Some(y)) = (columns.coordinate(x, row), columns.coordinate(y, row)) else { continue };
        rank.points.trials.push(columns.number(row));
        rank.points.x.push(x);
        rank.points.y.push(y);
        rank.ranks.push(f64::from(*position) / sample.total as f64);
        rank.stands_for.push(*stands_for);
    }
    rank
}
