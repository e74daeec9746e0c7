//! Reduction of many points: the best and the extremes exactly, the others as counts.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::values::{bin, even_edges};
use super::{Axis, Columns, Rows};

/// Share of values in each tail, with wider density bins.
const TAIL: f64 = 0.01;

/// Trials as points, in parallel lists.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Points {
    /// The numbers of the trials.
    pub trials: Vec<u64>,
    /// The horizontal positions.
    pub x: Vec<f64>,
    /// The vertical positions.
    pub y: Vec<f64>,
}

/// The number of trials in each cell of a grid.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Density {
    /// The edges of the cells along the horizontal axis, increasing.
    pub x_edges: Vec<f64>,
    /// The edges of the cells along the vertical axis, increasing.
    pub y_edges: Vec<f64>,
    /// The counts, one row of cells after the other, from the lowest row.
    pub counts: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) row: u32,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Number of best trials shown exactly in a view of `limit` points.
pub(super) fn best_count(limit: usize) -> usize {
    (limit / 10).max(1)
}

/// Best `count` of `rows` by the metric, best first.
pub(super) fn best_rows(columns: &Columns, rows: &Rows, metric: usize, count: usize) -> Vec<u32> {
    let order = columns.best_first(metric).iter().copied();
    order.filter(|row| rows.contains(*row as usize)).take(count).collect()
}

/// Reduces `points` to at most `limit`: those in `best`, and the minimum and maximum per bin along the axis. The
/// density counts all points.
pub(super) fn reduce(points: &[Point], best: &[u32], axis: &Axis, limit: usize) -> (Points, Option<Density>) {
    if points.len() <= limit {
        return (listed(points.iter()), None);
    }
    let best: HashSet<u32> = best.iter().take(best_count(limit)).copied().collect();
    let bins = axis.edges(points.iter().map(|point| point.x), (limit / 8).max(1));
    let mut extremes: Vec<Option<[usize; 2]>> = vec![None; bins.len() - 1];
    for (index, point) in points.iter().enumerate() {
        let [low, high] = extremes[bin(&bins, point.x)].get_or_insert([index; 2]);
        if point.y < points[*low].y {
            *low = index;
        }
        if point.y > points[*high].y {
            *high = index;
        }
    }
    // The global minimum and maximum come first: an axis may have more levels than `limit`.
    let by_value = |a: &usize, b: &usize| points[*a].y.total_cmp(&points[*b].y);
    let extremes: Vec<usize> = extremes.into_iter().flatten().flatten().collect();
    let of_all = [extremes.iter().copied().min_by(by_value), extremes.iter().copied().max_by(by_value)];
    let extremes: HashSet<usize> = of_all.into_iter().flatten().chain(extremes).take(limit / 4 + 2).collect();
    let kept = points.iter().enumerate();
    let kept = kept.filter(|(index, point)| best.contains(&point.row) || extremes.contains(index));
    (listed(kept.map(|(_, point)| point)), Some(density(points, axis, limit / 2)))
}

fn listed<'a>(points: impl Iterator<Item = &'a Point>) -> Points {
    let mut listed = Points::default();
    for point in points {
        listed.trials.push(u64::from(point.row) + 1);
        listed.x.push(point.x);
        listed.y.push(point.y);
    }
    listed
}

/// Counts of `points` in at most `cells` cells.
fn density(points: &[Point], axis: &Axis, cells: usize) -> Density {
    let wide = ((cells as f64 * 1.6).sqrt() as usize).max(1);
    let x_edges = axis.edges(points.iter().map(|point| point.x), wide);
    let y_edges = value_edges(points.iter().map(|point| point.y).collect(), (cells / (x_edges.len() - 1)).max(1));
    let (columns, rows) = (x_edges.len() - 1, y_edges.len() - 1);
    let mut counts = vec![0; columns * rows];
    for point in points {
        counts[bin(&y_edges, point.y) * columns + bin(&x_edges, point.x)] += 1;
    }
    Density { x_edges, y_edges, counts }
}

/// Edges of at most `bins` bins of `values`. With outliers, the first and the last bin are wider: otherwise a single
/// diverged trial would force all others into one bin.
pub(super) fn value_edges(mut values: Vec<f64>, bins: usize) -> Vec<f64> {
    if values.is_empty() {
        return vec![0.0, 1.0];
    }
    let last = values.len() - 1;
    let mut quantile = |share: f64| {
        let rank = (last as f64 * share).round() as usize;
        *values.select_nth_unstable_by(rank, f64::total_cmp).1
    };
    let [lowest, low, high, highest] = [0.0, TAIL, 1.0 - TAIL, 1.0].map(&mut quantile);
    if bins < 4 || low == high {
        return even_edges(lowest, highest, bins, false);
    }
    let mut edges = even_edges(low, high, bins - 2, false);
    if lowest < low {
        edges.insert(0, lowest);
    }
    if highest > high {
        edges.push(highest);
    }
    edges
}

/// Sample of rows: the best exactly, the others by one per quantile of the metric.
pub(super) struct Sample {
    /// Best first.
    pub(super) rows: Vec<u32>,
    /// Number of rows that each row represents.
    pub(super) stands_for: Vec<u32>,
    /// Rank of each row among all, from 0 for the best.
    pub(super) ranks: Vec<u32>,
    /// Number of rows with a result.
    pub(super) total: usize,
}

/// Samples at most `limit` of `rows` with a result of the metric.
pub(super) fn sample(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> Sample {
    let order = best_rows(columns, rows, metric, usize::MAX);
    let total = order.len();
    let exact = if total <= limit { total } else { best_count(limit) };
    let groups = limit.saturating_sub(exact).max(1).min(total - exact);
    let mut sample = Sample { rows: Vec::new(), stands_for: Vec::new(), ranks: Vec::new(), total };
    let mut add = |rank: usize, count: usize| {
        sample.rows.push(order[rank]);
        sample.stands_for.push(count as u32);
        sample.ranks.push(rank as u32);
    };
    (0..exact).for_each(|rank| add(rank, 1));
    for group in 0..groups {
        let at = |group: usize| exact + group * (total - exact) / groups;
        let (start, end) = (at(group), at(group + 1));
        add(start + (end - start) / 2, end - start);
    }
    sample
}
