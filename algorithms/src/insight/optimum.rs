//! Where the best results are: the best trial, and the points for which the model expects the best.

use std::collections::HashSet;

use nalgebra::DMatrix;
use serde::Serialize;

use super::model::InsightModel;
use super::value::{Estimate, serialize_values};
use crate::acquisition::{AcquisitionFunction, Axis, Criterion, Region, Search, TrustRegion};
use crate::problem::{ParameterValues, TrialId};

/// How many of the best points the search begins near.
const ANCHORS: usize = 5;

/// The best point by three measures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Optimum {
    /// The best measured point. Trials that were stopped early count only if none was finished.
    pub best_observed: PredictedPoint,
    /// Of the measured points, the one with the best posterior mean: with noise, often a better choice than the best
    /// value, which was also the luckiest.
    pub best_measured_by_model: PredictedPoint,
    /// The point of the whole space with the best posterior mean that is found. It may never have been tried.
    pub predicted: PredictedPoint,
}

/// A point, with what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredictedPoint {
    /// Its parameters.
    #[serde(serialize_with = "serialize_values")]
    pub parameters: ParameterValues,
    /// What is predicted there, without noise.
    pub predicted: Estimate,
    /// The first trial there; `None` if it was not tried.
    pub trial: Option<TrialId>,
    /// What was measured there, in the user's sign: the mean of its trials.
    pub observed: Option<f64>,
}

impl InsightModel {
    /// Where the best results are.
    pub fn optimum(&self) -> Optimum {
        let means = self.posterior.predict(&self.data.points).means;
        let mut rows: Vec<usize> = (0..self.rows.len()).collect();
        rows.sort_by(|&a, &b| means[(0, b)].total_cmp(&means[(0, a)]).then(a.cmp(&b)));
        let best = rows.first().copied().unwrap_or(0);
        let found = self.best_of_space(&rows).filter(|point| self.mean(point) > means[(0, best)]);
        Optimum {
            best_observed: self.measured(self.best_row()),
            best_measured_by_model: self.measured(best),
            predicted: match found {
                Some(point) => self.untried(&point),
                None => self.measured(best),
            },
        }
    }

    /// The best posterior mean that the search of the acquisition function finds, beginning near `rows`.
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
