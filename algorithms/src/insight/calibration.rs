//! Calibration of the model: each point predicted from all others.
//!
//! Notation as in [`crate::gp`]. With fixed hyperparameters, the prediction of observation i from the others is normal
//! with `mu_i = y_i - (inv(K) y)_i / inv(K)_ii` and variance `1 / inv(K)_ii`, including the noise of the observation
//! (Rasmussen & Williams 2006, equation 5.12). The hyperparameters are fitted to all points, so the results are
//! slightly optimistic, most with few points.

use nalgebra::{DMatrix, DVector};
use serde::Serialize;

use super::model::{InsightError, InsightModel};
use super::value::Estimate;
use crate::gp::{Posterior, TrainingSet};
use crate::numerics::normal::{log_density, quantile};
use crate::problem::TrialId;

/// Nominal coverages of the bands.
const BANDS: [f64; 3] = [0.5, 0.8, 0.95];
/// Jitter tried on the diagonal, relative to its mean.
const JITTERS: [f64; 6] = [0.0, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4];

/// The number of finished trials from which on calibration leaves out those that were stopped early. A guess.
const FEWEST_COUNTED: usize = 5;

/// The quality of leave-one-out predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// The observed coverage of several prediction bands.
    pub coverage: Vec<Coverage>,
    /// The mean log density of the measured values under the predictions, standardised on the warped scale. Higher is
    /// better. Predicting only the mean and deviation of all values scores -1.42.
    pub log_predictive_density: f64,
    /// Spearman's correlation of predicted and measured values, from -1 to 1: whether the model ranks unseen points
    /// correctly. `None` if all predictions are equal.
    pub rank_correlation: Option<f64>,
    /// One per point with a finished trial, or one per point with fewer than five such points; in the order of the trials.
    pub points: Vec<LeftOut>,
}

/// The coverage of a prediction band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The expected share of measured values within the band, from 0 to 1.
    pub nominal: f64,
    /// The observed share, from 0 to 1.
    pub observed: f64,
}

/// A point predicted from the other points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The first trial at the point.
    pub trial: TrialId,
    /// The measured value, in the units and orientation of the user.
    pub observed: f64,
    /// The predicted measurement, including noise.
    pub predicted: Estimate,
    /// The number of deviations by which the measured value is better (above 0) or worse than predicted, on the warped
    /// scale.
    pub residual: f64,
}

impl InsightModel {
    /// Computes leave-one-out predictions and their quality.
    ///
    /// # Errors
    /// [`InsightError::Numerical`] if the covariance cannot be inverted.
    pub fn calibration(&self) -> Result<Calibration, InsightError> {
        let numerical = || InsightError::Numerical { metric: self.metric.clone(), points: self.rows.len() };
        let predicted = leave_one_out(&self.posterior, &self.data).ok_or_else(numerical)?;
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

    /// The finished rows, whose values are results; all rows if too few are finished to count.
    fn counted_rows(&self) -> Vec<usize> {
        let finished: Vec<usize> = (0..self.rows.len()).filter(|&row| self.rows[row].finished).collect();
        if finished.len() < FEWEST_COUNTED { (0..self.rows.len()).collect() } else { finished }
    }
}

/// The mean and deviation of each observation given the others; `None` if the covariance cannot be inverted.
pub(super) fn leave_one_out(posterior: &Posterior, data: &TrainingSet) -> Option<Vec<(f64, f64)>> {
    let model = posterior.hyperparameters();
    let mut covariance = model.kernel.cross(&data.points, &data.points);
    for (index, variance) in data.noise_variances(model.noise_variance).into_iter().enumerate() {
        covariance[(index, index)] += variance;
    }
    let inverse = inverse(&covariance)?;
    let solved = &inverse * DVector::from_column_slice(&data.values);
    let one = |(index, value): (usize, &f64)| {
        let precision = inverse[(index, index)];
        (value - solved[index] / precision, precision.recip().sqrt())
    };
    let predicted: Vec<(f64, f64)> = data.values.iter().enumerate().map(one).collect();
    predicted.iter().all(|(mean, deviation)| mean.is_finite() && deviation.is_finite()).then_some(predicted)
}

/// The inverse of a covariance, with increasing jitter if it fails.
fn inverse(covariance: &DMatrix<f64>) -> Option<DMatrix<f64>> {
    let mean_diagonal = covariance.trace() / covariance.nrows().max(1) as f64;
    JITTERS.iter().find_map(|jitter| {
        let mut jittered = covariance.clone();
        for index in 0..jittered.nrows() {
            jittered[(index, index)] += jitter * mean_diagonal;
        }
        Some(jittered.cholesky()?.inverse())
    })
}

/// Spearman's correlation: the correlation of the ranks, where equal values share their mean rank. `None` if all values
/// of one list are equal.
pub(super) fn rank_correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (ranks(one), ranks(other));
    let middle = (one.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let scale = (product(&one, &one) * product(&other, &other)).sqrt();
    (scale > 0.0).then(|| (product(&one, &other) / scale).clamp(-1.0, 1.0))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let up_to = sorted.partition_point(|other| other <= value);
        (below + up_to - 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}
