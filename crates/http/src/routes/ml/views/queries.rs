use schemars::JsonSchema;
use serde::Deserialize;

use crate::response::error::ApiError;
use tunesmith_views::DEFAULT_POINTS;

/// Minimum and maximum number of points of a view.
const POINTS: (usize, usize) = (10, 20_000);

pub(super) trait ViewQuery {
    fn filter(&self) -> &str;

    /// Approximate maximum number of points.
    ///
    /// # Errors
    /// If the requested number is out of range.
    fn limit(&self) -> Result<usize, ApiError>;
}

/// Defines query parameters: those common to all plots, plus the given ones.
macro_rules! queries {
    ($(#[doc = $about:literal] $query:ident { $(#[doc = $doc:literal] $parameter:ident,)* })*) => { $(
        #[doc = $about]
        #[derive(Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct $query {
            /// The trials, as in `state = SUCCEEDED AND parameters.learning_rate < 0.01`; default all.
            pub(super) filter: String,
            /// Approximate maximum number of points, from 10 to 20000; default 2000.
            #[schemars(range(min = 0))]
            pub(super) points: i32,
            $(#[doc = $doc] pub(super) $parameter: String,)*
        }

        impl ViewQuery for $query {
            fn filter(&self) -> &str {
                &self.filter
            }

            fn limit(&self) -> Result<usize, ApiError> {
                let (points, (least, most)) = (self.points, POINTS);
                match usize::try_from(points) {
                    Ok(0) => Ok(DEFAULT_POINTS),
                    Ok(points) if (least..=most).contains(&points) => Ok(points),
                    _ => Err(ApiError::invalid("points", format!("is {points}, must be from {least} to {most}"))),
                }
            }
        }
    )* };
}

queries! {
    /// The trials of a view of one metric.
    MetricQuery {
        /// The metric; default the first one.
        metric,
    }
    /// The trials of a view over one parameter.
    SliceQuery {
        /// The metric; default the first one.
        metric,
        /// The parameter; default the first one.
        parameter,
    }
    /// The trials of a view over two parameters.
    PairQuery {
        /// The metric; default the first one.
        metric,
        /// The parameter of the horizontal axis; default the first one.
        x,
        /// The parameter of the vertical axis; default the second one.
        y,
    }
    /// The trials of a view over two metrics.
    FrontQuery {
        /// The metric of the horizontal axis; default the first one.
        x,
        /// The metric of the vertical axis; default the second one.
        y,
    }
    /// The trials of a view without a metric.
    TimelineQuery {}
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

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

impl TableQuery {
    /// Number of trials before the page.
    ///
    /// # Errors
    /// If it is negative.
    pub(super) fn offset(&self) -> Result<usize, ApiError> {
        count("offset", self.offset)
    }
}

impl ViewQuery for TableQuery {
    fn filter(&self) -> &str {
        &self.filter
    }

    fn limit(&self) -> Result<usize, ApiError> {
        let limit = count("limit", self.limit)?;
        Ok(if limit == 0 { DEFAULT_PAGE } else { limit.min(MAX_PAGE) })
    }
}

fn count(field: &str, value: i32) -> Result<usize, ApiError> {
    usize::try_from(value).map_err(|_| ApiError::invalid(field, format!("{value} is negative")))
}
