//! Optimum: the best trial, and the best points according to the model.

use nalgebra::DMatrix;
use serde::Serialize;

use super::model::InsightModel;
use super::value::{Estimate, serialize_values};
use crate::acquisition::{AcquisitionFunction, Criterion, maximum_of_space};
use crate::problem::{ObservationNoise, ParameterValues, TrialId};

/// Number of best points near which the search starts. A guess.
const ANCHORS: usize = 5;

/// Minimum number of points with a finished trial for a recommendation by the model: with fewer, it contains little
/// more than the results themselves. A guess.
const FEWEST_RECOMMENDED: usize = 10;

/// Deviations of the difference by which a point must be better than the best measured one under the model to be
/// recommended in its place, with noise (measured, see docs/experiments/023).
const RECOMMENDED_DEVIATIONS: f64 = 0.5;

/// 95% quantile of the standard normal distribution. At less, the best results of deterministic but rough functions are
/// called lucky (measured, see docs/experiments/045).
const LUCK_DEVIATIONS: f64 = 1.644_853_626_951_473;

/// Best point by three criteria. A trial that was stopped early has no result of full length: it counts only if no
/// trial is finished.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Optimum {
    /// Best measured point among those that satisfy every constraint, or among all if none does.
    pub best_observed: PredictedPoint,
    /// `best_observed`, or with noise the measured point with the best posterior mean if it is better by half a deviation:
    /// the best of many noisy values is also the luckiest.
    pub best_measured_by_model: PredictedPoint,
    /// Whether the model has enough points to recommend `best_measured_by_model`: at least 10 with a finished trial.
    pub is_recommended: bool,
    /// Whether `best_observed` may owe its rank to luck, see [`Recommendation::best_may_be_lucky`].
    pub best_may_be_lucky: bool,
    /// Point with the best posterior mean found by a search of the whole space; possibly untried. With constraints,
    /// which this model does not predict: as `best_measured_by_model`.
    pub predicted: PredictedPoint,
}

/// Measured point to use.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// Point with the best measured value, or with noise the one with the best posterior mean if it is better by half a
    /// deviation.
    pub point: PredictedPoint,
    /// Whether the best measured point may owe its rank to luck: by the joint posterior of the metric at both points,
    /// it is worse than `point` with a probability above 95%.
    pub best_may_be_lucky: bool,
    /// Whether there is evidence of noise, see [`InsightModel::is_noisy`].
    pub is_noisy: bool,
}

/// Point with its prediction and measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredictedPoint {
    /// Parameters of the point.
    #[serde(serialize_with = "serialize_values")]
    pub parameters: ParameterValues,
    /// Prediction without noise.
    pub predicted: Estimate,
    /// First trial at the point; `None` if untried.
    pub trial: Option<TrialId>,
    /// Measured value, in the units and orientation of the user: the mean of the trials at the point.
    pub observed: Option<f64>,
    /// Number of trials in that mean; 0 if untried.
    pub trials: usize,
    /// Standard error of that mean, in the units of the user; `None` of fewer than two trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
}

impl InsightModel {
    /// Computes the best points.
    pub fn optimum(&self) -> Optimum {
        let rows = self.rows_by_mean();
        let best = self.recommended_row(&rows);
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

    /// Measured point to use; `None` with too few points for a choice by the model.
    pub fn recommendation(&self) -> Option<Recommendation> {
        let best = self.recommended_row(&self.rows_by_mean());
        self.can_recommend().then(|| Recommendation {
            point: self.measured(best),
            best_may_be_lucky: self.may_be_lucky(self.best_row(), best),
            is_noisy: self.is_noisy(),
        })
    }

    /// Best mean result among the candidates with the number of trials of a leader, or with as many trials as any has if
    /// the repetition is incomplete; `None` if no candidate was repeated.
    fn best_repeated_row(&self) -> Option<usize> {
        let candidates = self.eligible_rows();
        let most = candidates.iter().map(|&row| self.rows[row].count).max()?.min(self.trials_per_leader?);
        let repeated = candidates.into_iter().rev().filter(|&row| most > 1 && self.rows[row].count >= most);
        repeated.max_by(|&a, &b| self.rows[a].value.total_cmp(&self.rows[b].value))
    }

    /// The best mean of the repeated rows. Without one, the best measured row, or with noise the first of `rows`, by
    /// decreasing posterior mean, if that is better.
    fn recommended_row(&self, rows: &[usize]) -> usize {
        if let Some(row) = self.best_repeated_row() {
            return row;
        }
        let best = self.best_row();
        let first = rows.first().copied().unwrap_or(best);
        let is_better =
            || self.data.noise == ObservationNoise::High || self.exceeds(first, best, RECOMMENDED_DEVIATIONS);
        if self.is_noisy() && is_better() { first } else { best }
    }

    fn can_recommend(&self) -> bool {
        self.finished_points() >= FEWEST_RECOMMENDED || self.best_repeated_row().is_some()
    }

    /// Whether `row` is worse than `other` beyond the uncertainty of the difference.
    fn may_be_lucky(&self, row: usize, other: usize) -> bool {
        self.exceeds(other, row, LUCK_DEVIATIONS)
    }

    /// Whether the metric at `row` exceeds that at `other` by this many deviations of the difference.
    pub(super) fn exceeds(&self, row: usize, other: usize, deviations: f64) -> bool {
        let (difference, deviation) = self.posterior.difference(&self.rows[row].point, &self.rows[other].point);
        row != other && difference > deviations * deviation
    }

    /// Candidate rows for the best, by decreasing posterior mean.
    pub(super) fn rows_by_mean(&self) -> Vec<usize> {
        let means = self.posterior.predict(&self.data.points).means;
        let mut rows = self.eligible_rows();
        rows.sort_by(|&a, &b| means[(0, b)].total_cmp(&means[(0, a)]).then(a.cmp(&b)));
        rows
    }

    /// Best posterior mean found by the search of the acquisition function, starting near `rows`.
    fn best_of_space(&self, rows: &[usize]) -> Option<Vec<f64>> {
        let anchors: Vec<Vec<f64>> = rows.iter().take(ANCHORS).map(|&row| self.rows[row].point.clone()).collect();
        let mean = AcquisitionFunction::new(self.posterior.clone(), Criterion::Mean, 0.0, None);
        maximum_of_space(&mean, &self.encoding, &self.posterior.hyperparameters().lengthscales(), &anchors)
    }

    fn mean(&self, point: &[f64]) -> f64 {
        self.posterior.predict(&DMatrix::from_row_slice(1, point.len(), point)).means[(0, 0)]
    }

    fn measured(&self, row: usize) -> PredictedPoint {
        let row = &self.rows[row];
        PredictedPoint {
            trial: Some(row.trial),
            observed: Some(self.goal.to_maximized(row.value)),
            trials: row.count,
            standard_error: row.deviation.map(|deviation| deviation / (row.count as f64).sqrt()),
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
            trials: 0,
            standard_error: None,
        }
    }
}
