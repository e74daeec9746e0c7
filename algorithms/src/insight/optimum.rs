//! The optimum: the best trial, and the points that the model predicts to be best.

use std::collections::HashSet;

use nalgebra::DMatrix;
use serde::Serialize;

use super::model::InsightModel;
use super::value::{Estimate, serialize_values};
use crate::acquisition::{AcquisitionFunction, Axis, Criterion, Region, Search, TrustRegion};
use crate::problem::{ParameterValues, TrialId};

/// The number of best points near which the search starts. A guess.
const ANCHORS: usize = 5;

/// The smallest number of points with a finished trial for which a model recommends one of them: with fewer, it contains
/// little more than the results themselves. A guess.
const FEWEST_RECOMMENDED: usize = 10;

/// The 95% quantile of the standard normal distribution. At less, the best results of deterministic but rough functions are
/// called lucky (measured, see docs/experiments/045).
const LUCK_DEVIATIONS: f64 = 1.644_853_626_951_473;

/// The best point by three criteria. A trial that was stopped early has no result of full length: it counts only if no trial
/// is finished.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Optimum {
    /// The best measured point among those that satisfy every constraint, or among all if none does.
    pub best_observed: PredictedPoint,
    /// The measured point with the best posterior mean. With noise it is often a better choice than the best value,
    /// which is also the luckiest.
    pub best_measured_by_model: PredictedPoint,
    /// Whether the points of the model are enough to recommend `best_measured_by_model`: at least 10 with a finished trial.
    pub is_recommended: bool,
    /// Whether `best_observed` may owe its place to luck, see [`Recommendation::best_may_be_lucky`].
    pub best_may_be_lucky: bool,
    /// The point with the best posterior mean that the search finds in the whole space. It may not have been tried. With
    /// constraints, which this model does not predict: as `best_measured_by_model`.
    pub predicted: PredictedPoint,
}

/// The measured point to use.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The measured point with the best posterior mean.
    pub point: PredictedPoint,
    /// Whether the best measured point may owe its place to luck: by the joint posterior of the metric at both points, it is
    /// worse than `point` with a probability above 95%.
    pub best_may_be_lucky: bool,
}

/// A point with its prediction and measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredictedPoint {
    /// The parameters of the point.
    #[serde(serialize_with = "serialize_values")]
    pub parameters: ParameterValues,
    /// The prediction, without noise.
    pub predicted: Estimate,
    /// The first trial at the point; `None` if it was not tried.
    pub trial: Option<TrialId>,
    /// The measured value, in the units and orientation of the user: the mean of the trials at the point.
    pub observed: Option<f64>,
}

impl InsightModel {
    /// Computes the best points.
    pub fn optimum(&self) -> Optimum {
        let rows = self.rows_by_mean();
        let best = rows.first().copied().unwrap_or(0);
        let highest = self.mean(&self.rows[best].point);
        // The model does not predict constraints.
        let found = if self.is_constrained { None } else { self.best_of_space(&rows) };
        let found = found.filter(|point| self.mean(point) > highest);
        Optimum {
            best_observed: self.measured(self.best_row()),
            best_measured_by_model: self.measured(best),
            is_recommended: self.can_recommend(),
            best_may_be_lucky: self.can_recommend() && self.may_be_lucky(self.best_row(), best),
            predicted: match found {
                Some(point) => self.untried(&point),
                None => self.measured(best),
            },
        }
    }

    /// The measured point to use; `None` if there are too few points for a choice by the model.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let best = *self.rows_by_mean().first()?;
        self.can_recommend().then(|| Recommendation {
            point: self.measured(best),
            best_may_be_lucky: self.may_be_lucky(self.best_row(), best),
        })
    }

    fn can_recommend(&self) -> bool {
        self.finished_points() >= FEWEST_RECOMMENDED
    }

    /// Whether `row` is worse than `other` beyond the uncertainty of the difference.
    fn may_be_lucky(&self, row: usize, other: usize) -> bool {
        let (difference, deviation) = self.posterior.difference(&self.rows[other].point, &self.rows[row].point);
        row != other && difference > LUCK_DEVIATIONS * deviation
    }

    /// The rows that can be the best, from the best to the worst posterior mean.
    fn rows_by_mean(&self) -> Vec<usize> {
        let means = self.posterior.predict(&self.data.points).means;
        let mut rows = self.eligible_rows();
        rows.sort_by(|&a, &b| means[(0, b)].total_cmp(&means[(0, a)]).then(a.cmp(&b)));
        rows
    }

    /// The best posterior mean found by the search of the acquisition function, starting near `rows`.
    fn best_of_space(&self, rows: &[usize]) -> Option<Vec<f64>> {
        let region = Region::whole(&self.encoding);
        let ordered: Vec<bool> = region.axes.iter().map(|axis| !matches!(axis, Axis::Levels(_))).collect();
        let scales = TrustRegion::UNIT.sides(&self.posterior.hyperparameters().lengthscales(), &ordered);
        let anchors: Vec<Vec<f64>> = rows.iter().take(ANCHORS).map(|&row| self.rows[row].point.clone()).collect();
        let search = Search {
            encoding: &self.encoding,
            region: &region,
            scales: &scales,
            anchors: &anchors,
            prior: None,
            used: &HashSet::new(),
            seed: 0,
            trial: TrialId(0),
        };
        search.maximize(&AcquisitionFunction::new(self.posterior.clone(), Criterion::Mean, 0.0, None))
    }

    fn mean(&self, point: &[f64]) -> f64 {
        self.posterior.predict(&DMatrix::from_row_slice(1, point.len(), point)).means[(0, 0)]
    }

    fn measured(&self, row: usize) -> PredictedPoint {
        let row = &self.rows[row];
        PredictedPoint {
            trial: Some(row.trial),
            observed: Some(self.goal.to_maximized(row.value)),
            ..self.untried(&row.point)
        }
    }

    fn untried(&self, point: &[f64]) -> PredictedPoint {
        let prediction = self.posterior.predict(&DMatrix::from_row_slice(1, point.len(), point));
        PredictedPoint {
            parameters: self.parameters(point),
            predicted: Estimate::new(&self.warp, self.goal, prediction.means[(0, 0)], prediction.deviations[0]),
            trial: None,
            observed: None,
        }
    }
}
