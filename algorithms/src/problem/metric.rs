//! What is optimised, and the whole statement of a problem.

use serde::{Deserialize, Serialize};

use super::SearchSpace;

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Goal {
    /// Larger is better.
    #[default]
    Maximize,
    /// Smaller is better.
    Minimize,
}

impl Goal {
    /// `value` with its sign changed where needed, so that larger is better.
    pub fn to_maximized(self, value: f64) -> f64 {
        match self {
            Self::Maximize => value,
            Self::Minimize => -value,
        }
    }

    /// Whether `a` is strictly better than `b`. NaN is better than nothing.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        self.to_maximized(a) > self.to_maximized(b)
    }
}

/// A metric that trials report and the search optimises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// The tag under which trainers report it.
    pub name: String,
    /// Which way it is better.
    pub goal: Goal,
}

/// What a search algorithm is told: the space and the metrics, without the service's bookkeeping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemStatement {
    search_space: SearchSpace,
    metrics: Vec<MetricSpec>,
}

impl ProblemStatement {
    /// A problem with one or more metrics.
    ///
    /// # Errors
    /// [`ProblemError::NoMetric`] if `metrics` is empty, [`ProblemError::RepeatedMetric`] if a name comes twice.
    pub fn new(search_space: SearchSpace, metrics: Vec<MetricSpec>) -> Result<Self, ProblemError> {
        if metrics.is_empty() {
            return Err(ProblemError::NoMetric);
        }
        for (index, metric) in metrics.iter().enumerate() {
            if metrics[..index].iter().any(|other| other.name == metric.name) {
                return Err(ProblemError::RepeatedMetric { name: metric.name.clone() });
            }
        }
        Ok(Self { search_space, metrics })
    }

    /// The parameters.
    pub fn search_space(&self) -> &SearchSpace {
        &self.search_space
    }

    /// The metrics, at least one; the order is that of [`super::TrialOutcome::Measured`].
    pub fn metrics(&self) -> &[MetricSpec] {
        &self.metrics
    }
}

/// Why a search space and some metrics are not a problem.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Nothing to optimise.
    #[error("at least one metric is needed")]
    NoMetric,
    /// Two metrics share a name.
    #[error("metric {name:?} is defined twice")]
    RepeatedMetric {
        /// The name.
        name: String,
    },
}
