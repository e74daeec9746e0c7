//! Query parameters of views.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::status::ApiError;
use tunesmith_views::DEFAULT_POINTS;

/// The smallest and largest number of points of a view.
const POINTS: (usize, usize) = (10, 20_000);

/// The trials of a view of one metric.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct MetricQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// Approximate maximum number of points, from 10 to 20000; default 2000.
    #[schemars(range(min = 0))]
    pub(super) points: i32,
    /// The metric; default the first one.
    pub(super) metric: String,
}

/// The trials of a view over one parameter.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SliceQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// Approximate maximum number of points, from 10 to 20000; default 2000.
    #[schemars(range(min = 0))]
    pub(super) points: i32,
    /// The metric; default the first one.
    pub(super) metric: String,
    /// The parameter; default the first one.
    pub(super) parameter: String,
}

/// The trials of a view over two parameters.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PairQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// Approximate maximum number of points, from 10 to 20000; default 2000.
    #[schemars(range(min = 0))]
    pub(super) points: i32,
    /// The metric; default the first one.
    pub(super) metric: String,
    /// The parameter of the horizontal axis; default the first one.
    pub(super) x: String,
    /// The parameter of the vertical axis; default the second one.
    pub(super) y: String,
}

/// The trials of a view over two metrics.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FrontQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// Approximate maximum number of points, from 10 to 20000; default 2000.
    #[schemars(range(min = 0))]
    pub(super) points: i32,
    /// The metric of the horizontal axis; default the first one.
    pub(super) x: String,
    /// The metric of the vertical axis; default the second one.
    pub(super) y: String,
}

/// The trials of a view without a metric.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TimelineQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// Approximate maximum number of points, from 10 to 20000; default 2000.
    #[schemars(range(min = 0))]
    pub(super) points: i32,
}

/// The trials of a page of the table.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TableQuery {
    /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
    pub(super) filter: String,
    /// A field as in the filter, optionally followed by ` desc`; default `id`.
    pub(super) order_by: String,
    /// Number of trials before the first one.
    #[schemars(range(min = 0))]
    pub(super) offset: i32,
    /// Maximum number of trials; default 100, at most 1000.
    #[schemars(range(min = 0))]
    pub(super) limit: i32,
}

/// The limit of points that a query gives.
pub(super) fn limit(points: i32) -> Result<usize, ApiError> {
    let (least, most) = POINTS;
    match usize::try_from(points) {
        Ok(0) => Ok(DEFAULT_POINTS),
        Ok(points) if (least..=most).contains(&points) => Ok(points),
        _ => Err(ApiError::invalid("points", format!("is {points}, must be from {least} to {most}"))),
    }
}
