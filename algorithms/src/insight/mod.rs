//! Analysis of a study's results: importance of parameters, predicted optimum, slices, and calibration of the model.
//!
//! All results derive from the model of [`GpBandit`](crate::designers::GpBandit): a Gaussian process on encoded points
//! and warped values. They are pure functions of problem and history. There is no seed, and neither the order of trials
//! nor the unit of the metric has an effect.
//!
//! Each metric is analysed separately. Infeasible trials, and trials with a non-finite metric, are counted but not
//! modelled. The last value of a trial that was stopped early is modelled with the noise of a lower fidelity, and the
//! trial is the best one only if no trial ran to its end. With a single metric, results that are too good to be true, and
//! wildly bad ones that their points do not explain, are not modelled either.

mod calibration;
mod importance;
mod model;
mod noise;
mod optimum;
mod slices;
mod suspicious;
#[cfg(test)]
mod tests;
mod value;

use serde::Serialize;

pub use calibration::{Calibration, Coverage, LeftOut};
pub use importance::{Importance, Interval, ParameterImportance};
pub use model::{InsightError, InsightModel, fewest_points};
pub use optimum::{Optimum, PredictedPoint, Recommendation};
pub use slices::{Slice, SlicePoint};
pub use suspicious::SuspiciousTrial;
pub use value::Estimate;

use crate::designer::History;
use crate::problem::{Goal, ProblemStatement, TrialOutcome};

/// Number of trials of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialCounts {
    /// With a result, including those stopped early.
    pub measured: usize,
    /// Stopped early, with their last report as the result.
    pub stopped_early: usize,
    /// Without a usable result.
    pub infeasible: usize,
    /// Not completed yet.
    pub pending: usize,
}

impl TrialCounts {
    /// Counts the trials of `history`.
    pub fn of(history: History<'_>) -> Self {
        let mut counts = Self { pending: history.pending.len(), ..Self::default() };
        for trial in history.completed {
            match trial.outcome {
                TrialOutcome::Measured { fidelity, .. } => {
                    counts.measured += 1;
                    counts.stopped_early += usize::from(!fidelity.is_full());
                }
                TrialOutcome::Infeasible => counts.infeasible += 1,
            }
        }
        counts
    }
}

/// Analysis of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricInsight {
    /// Name of the metric.
    pub metric: String,
    /// Direction in which the metric improves.
    #[serde(serialize_with = "value::serialize_goal")]
    pub goal: Goal,
    /// Number of distinct points of the model.
    pub points: usize,
    /// Noise variance of one trial divided by the mean prior variance of the model, both on its warped scale. 0 for a
    /// deterministic metric, above 1 if noise hides the effects of the parameters.
    pub noise_to_signal: f64,
    /// Trials with results too good to be true, best first. The model is without them.
    pub suspicious_trials: Vec<SuspiciousTrial>,
    /// Whether there is evidence of noise, see [`InsightModel::is_noisy`].
    pub is_noisy: bool,
    /// Importance of each parameter.
    pub importance: Importance,
    /// Best measured and predicted points.
    pub optimum: Optimum,
    /// Predictions along each parameter.
    pub slices: Vec<Slice>,
    /// Quality of the model's predictions.
    pub calibration: Calibration,
}

/// Analyses the metric named `metric`.
///
/// # Errors
/// [`InsightError`]; with too few trials, it states how many are required.
pub fn explain(problem: &ProblemStatement, history: History<'_>, metric: &str) -> Result<MetricInsight, InsightError> {
    let model = InsightModel::new(problem, history, metric)?;
    Ok(MetricInsight {
        metric: metric.to_owned(),
        goal: model.goal(),
        points: model.points(),
        noise_to_signal: model.noise_to_signal(),
        suspicious_trials: model.suspicious_trials().to_vec(),
        is_noisy: model.is_noisy(),
        importance: model.importance(),
        optimum: model.optimum(),
        slices: model.slices(),
        calibration: model.calibration()?,
    })
}
