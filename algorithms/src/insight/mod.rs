//! What a study's results say about its parameters: which matter, where the optimum lies, and how far that can be
//! trusted.
//!
//! Everything is read off the model that [`GpBandit`](crate::designers::GpBandit) searches with: a Gaussian process on
//! encoded points and warped values. All answers are pure functions of problem and history; a seed has no part in them,
//! and neither the order of trials nor the unit of the metric changes what they say.
//!
//! Each metric is explained by itself. Infeasible trials, and for a metric those in which it is not finite, are counted
//! but not modelled; trials that were stopped early are, as noisy observations.
//!
//! Not here: text and tables for people.

mod calibration;
mod importance;
mod model;
mod optimum;
mod slices;
#[cfg(test)]
mod tests;
mod value;

use serde::Serialize;

pub use calibration::{Calibration, Coverage, LeftOut};
pub use importance::{Importance, Interval, ParameterImportance};
pub use model::{InsightError, InsightModel, fewest_points};
pub use optimum::{Optimum, PredictedPoint};
pub use slices::{Slice, SlicePoint};
pub use value::Estimate;

use crate::designer::History;
use crate::problem::{Goal, ProblemStatement, TrialOutcome};

/// How many trials there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialCounts {
    /// With a result, those stopped early among them.
    pub measured: usize,
    /// Stopped early, with their last report as result.
    pub stopped_early: usize,
    /// Without a usable result.
    pub infeasible: usize,
    /// Still without a result.
    pub pending: usize,
}

impl TrialCounts {
    /// Counts the trials of `history`.
    pub fn of(history: History<'_>) -> Self {
        let mut counts = Self { pending: history.pending.len(), ..Self::default() };
        for trial in history.completed {
            match trial.outcome {
                TrialOutcome::Measured { stopped_early, .. } => {
                    counts.measured += 1;
                    counts.stopped_early += usize::from(stopped_early);
                }
                TrialOutcome::Infeasible => counts.infeasible += 1,
            }
        }
        counts
    }
}

/// Everything that is known of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricInsight {
    /// The metric.
    pub metric: String,
    /// Which way it is better.
    #[serde(serialize_with = "value::serialize_goal")]
    pub goal: Goal,
    /// How many different points the model knows.
    pub points: usize,
    /// Variance of the noise of one trial by the mean prior variance of the model, both on its warped scale: 0 for a
    /// metric that always comes out the same, above 1 if noise hides what the parameters do.
    pub noise_to_signal: f64,
    /// Which parameters matter.
    pub importance: Importance,
    /// Where the best results are.
    pub optimum: Optimum,
    /// The metric along each parameter.
    pub slices: Vec<Slice>,
    /// How far predictions can be trusted.
    pub calibration: Calibration,
}

/// Explains the metric named `metric`.
///
/// # Errors
/// [`InsightError`] says what is missing; for too few trials, how many are needed.
pub fn explain(problem: &ProblemStatement, history: History<'_>, metric: &str) -> Result<MetricInsight, InsightError> {
    let model = InsightModel::new(problem, history, metric)?;
    Ok(MetricInsight {
        metric: metric.to_owned(),
        goal: model.goal(),
        points: model.points(),
        noise_to_signal: model.noise_to_signal(),
        importance: model.importance(),
        optimum: model.optimum(),
        slices: model.slices(),
        calibration: model.calibration()?,
    })
}
