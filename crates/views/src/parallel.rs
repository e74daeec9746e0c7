use schemars::JsonSchema;
use serde::Serialize;

use super::reduction::sample;
use super::{Axis, Columns, Rows};

/// Trials as lines across the axes of parameters and metrics.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParallelCoordinates {
    /// The number of trials with a result.
    pub measured: usize,
    /// The numbers of the trials, best first.
    pub trials: Vec<u64>,
    /// For each trial, the number of trials with similar results that it stands for; 1 for the best.
    pub stands_for: Vec<u32>,
    /// The parameters, then the metrics.
    pub dimensions: Vec<Dimension>,
}

/// One axis with the values of the trials.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dimension {
    /// The axis.
    #[serde(flatten)]
    pub axis: Axis,
    /// One value for each trial; null in trials without the parameter.
    pub values: Vec<Option<f64>>,
}

/// Parallel coordinates of `rows`: at most `limit` lines, sampled by the metric.
pub fn parallel_coordinates(columns: &Columns, rows: &Rows, metric: usize, limit: usize) -> ParallelCoordinates {
    let sample = sample(columns, rows, metric, limit);
    let values = |value: &dyn Fn(usize) -> Option<f64>| sample.rows.iter().map(|row| value(*row as usize)).collect();
    let parameters = columns.problem().search_space().parameters().iter().enumerate().map(|(index, spec)| Dimension {
        axis: Axis::of_parameter(spec),
        values: values(&|row| columns.coordinate(index, row)),
    });
    let metrics = columns.problem().metrics().iter().enumerate().map(|(index, spec)| Dimension {
        axis: Axis::of_metric(&spec.name),
        values: values(&|row| columns.metric(index, row)),
    });
    ParallelCoordinates {
        measured: sample.total,
        dimensions: parameters.chain(metrics).collect(),
        trials: sample.rows.iter().map(|row| u64::from(*row) + 1).collect(),
        stands_for: sample.stands_for,
    }
}
