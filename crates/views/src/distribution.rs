//! Empirical distribution function of the results.

use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::{best_count, best_rows};
use super::{Axis, Columns, Rows};

/// The share of trials whose result is at most a value, as steps.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// The axis of the results.
    pub metric: Axis,
    /// The number of trials with a result.
    pub measured: usize,
    /// Results, increasing.
    pub values: Vec<f64>,
    /// For each result, the share of trials whose result is at most this one, from above 0 to 1.
    pub shares: Vec<f64>,
}

/// Distribution of the results of `rows` by a metric, with at most `limit` steps: the best exactly, the others at even
/// shares.
pub fn distribution(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> Distribution {
    let order = best_rows(columns, rows, metric, usize::MAX);
    let total = order.len();
    let ranks: Vec<usize> = if total <= limit {
        (0..total).collect()
    } else {
        let exact = best_count(limit);
        let others = limit.saturating_sub(exact).max(1);
        (0..exact).chain((1..=others).map(|step| exact + step * (total - 1 - exact) / others)).collect()
    };
    let value = |row: u32| columns.metric(metric, row as usize).unwrap_or(f64::NAN);
    let is_maximized = columns.goal(metric).to_maximized(1.0) > 0.0;
    // Sorted results are best first.
    let at_most = |bound: f64| {
        if is_maximized {
            total - order.partition_point(|row| value(*row) > bound)
        } else {
            order.partition_point(|row| value(*row) <= bound)
        }
    };
    let mut values: Vec<f64> = ranks.into_iter().map(|rank| value(order[rank])).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    Distribution {
        metric: Axis::of_metric(&columns.problem().metrics()[metric].name),
        measured: total,
        shares: values.iter().map(|value| at_most(*value) as f64 / total as f64).collect(),
        values,
    }
}
