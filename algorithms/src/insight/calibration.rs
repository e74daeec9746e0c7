//! Calibration of the model: each point predicted from all others.
//!
//! Notation as in [`crate::gp`]. With fixed hyperparameters, the prediction of observation i from the others is normal
//! with `mu_i = y_i - (inv(K) y)_i / inv(K)_ii` and variance `1 / inv(K)_ii`, including the noise of the observation
//! (Rasmussen & Williams 2006, equation 5.12). The hyperparameters are fitted to all points, so the results are
//! slightly optimistic, most with few points.

use serde::Serialize;

use super::model::{InsightError, InsightModel};
use super::value::Estimate;
use crate::numerics::normal::{log_density, quantile};
use crate::numerics::ranks::rank_correlation;
use crate::problem::TrialId;

/// Nominal coverages of the bands.
const BANDS: [f64; 3] = [0.5, 0.8, 0.95];

/// Number of finished trials from which calibration ignores those that were stopped early. A guess.
const FEWEST_COUNTED: usize = 5;

/// Quality of leave-one-out predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// Observed coverage of several prediction bands.
    pub coverage: Vec<Coverage>,
    /// Mean log density of the measured values under the predictions, standardised on the warped scale. Higher is
    /// better. Predicting only the mean and deviation of all values scores -1.42.
    pub log_predictive_density: f64,
    /// Spearman's correlation of predicted and measured values, from -1 to 1: whether the model ranks unseen points
    /// correctly. `None` if all predictions are equal.
    pub rank_correlation: Option<f64>,
    /// One per point with a finished trial, or, with fewer than five such points, one per point; in trial order.
    pub points: Vec<LeftOut>,
}

/// Coverage of a prediction band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Expected share of measured values within the band, from 0 to 1.
    pub nominal: f64,
    /// Observed share, from 0 to 1.
    pub observed: f64,
}

/// A point predicted from the other points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// First trial at the point.
    pub trial: TrialId,
    /// Measured value, in the units and orientation of the user.
    pub observed: f64,
    /// Predicted measurement, including noise.
    pub predicted: Estimate,
    /// Number of deviations by which the measured value is better (above 0) or worse than predicted, on the warped
    /// scale.
    pub residual: f64,
}

impl InsightModel {
    /// Computes leave-one-out predictions and their quality.
    ///
    /// # Errors
    /// [`InsightError::Numerical`] if the covariance cannot be inverted.
    pub fn calibration(&self) -> Result<Calibration, InsightError> {
        let predicted = self.posterior.leave_one_out(&self.data.values);
        if !predicted.iter().all(|(mean, deviation)| mean.is_finite() && deviation.is_finite()) {
            return Err(InsightError::Numerical { metric: self.metric.clone(), points: self.rows.len() });
        }
        let residual = |(value, (mean, deviation)): (&f64, &(f64, f64))| -> f64 { (value - mean) / deviation };
        let residuals: Vec<f64> = self.data.values.iter().zip(&predicted).map(residual).collect();
        let counted = self.counted_rows();
        let residuals: Vec<f64> = counted.iter().map(|&row| residuals[row]).collect();
        let predicted: Vec<(f64, f64)> = counted.iter().map(|&row| predicted[row]).collect();
        let values: Vec<f64> = counted.iter().map(|&row| self.data.values[row]).collect();
        let n = residuals.len() as f64;
        let coverage = BANDS.map(|nominal| {
            let limit = quantile(0.5 + 0.5 * nominal);
            let inside = residuals.iter().filter(|residual| residual.abs() <= limit).count();
            Coverage { nominal, observed: inside as f64 / n }
        });
        let densities = residuals.iter().zip(&predicted).map(|(z, (_, deviation))| log_density(*z) - deviation.ln());
        let means: Vec<f64> = predicted.iter().map(|(mean, _)| *mean).collect();
        let point = |((row, residual), (mean, deviation)): ((&super::model::Row, &f64), &(f64, f64))| LeftOut {
            trial: row.trial,
            observed: self.goal.to_maximized(row.value),
            predicted: Estimate::new(&self.warp, self.goal, *mean, *deviation),
            residual: *residual,
        };
        Ok(Calibration {
            coverage: coverage.to_vec(),
            log_predictive_density: densities.sum::<f64>() / n,
            rank_correlation: rank_correlation(&means, &values),
            points: counted.iter().map(|&row| &self.rows[row]).zip(&residuals).zip(&predicted).map(point).collect(),
        })
    }

    /// Finished rows, whose values are results; all rows if too few are finished.
    fn counted_rows(&self) -> Vec<usize> {
        let finished: Vec<usize> = (0..self.rows.len()).filter(|&row| self.rows[row].finished).collect();
        if finished.len() < FEWEST_COUNTED { (0..self.rows.len()).collect() } else { finished }
    }
}
