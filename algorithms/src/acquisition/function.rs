//! Acquisition function of one objective: a [criterion](Criterion) of its model, conditioned on pending trials and
//! weighted by feasibility.
//!
//! Pending trials: their outcomes are drawn jointly in `S` fantasy samples. The value of a point is the mean over the
//! samples of its *analytic* value given the drawn outcomes; for expected improvement `logsumexp_s logEI_s - ln S`. It
//! is smoother than a maximum over samples and exact without pending trials. The samples are Latin-hypercube normals
//! that depend only on (study seed, pending trial). Sequential-greedy batches follow Wilson et al. 2018, arXiv
//! 1805.10196; the fantasies follow Snoek et al. 2012, arXiv 1206.2944, section 3.2.
//!
//! Failures: a feasibility model adds `ln Phi((mu_f - t_f) / s_f)`, the log probability of a feasible trial, times a
//! weight. For expected improvement and a weight of 1 this is the product of the two. For the other criteria it is a
//! penalty in units of the standardised values, close to 0 where failures are very improbable.

use nalgebra::DMatrix;

use super::constrained::BoundedOutcome;
use super::criterion::Criterion;
use super::interface::{Acquisition, AcquisitionValue, BLOCK, Screening};
use crate::gp::StackedPosterior;
use crate::numerics::normal::{log_distribution, log_distribution_derivative};

/// `S`, the number of fantasy samples with pending trials (measured, see docs/experiments/008).
pub const FANTASY_SAMPLES: usize = 128;

/// Acquisition function of one suggestion.
#[derive(Debug, Clone)]
pub struct AcquisitionFunction {
    posterior: StackedPosterior,
    criterion: Criterion,
    /// `f*` in each fantasy sample.
    thresholds: Vec<f64>,
    feasibility: Option<BoundedOutcome>,
}

impl AcquisitionFunction {
    /// Creates the function for `criterion` under `posterior`, whose values are maximised.
    ///
    /// Improvements are measured from `threshold`. `feasibility` is an outcome that reaches its threshold where trials
    /// do not fail.
    pub fn new(
        posterior: impl Into<StackedPosterior>,
        criterion: Criterion,
        threshold: f64,
        feasibility: Option<BoundedOutcome>,
    ) -> Self {
        let posterior = posterior.into();
        let thresholds = vec![threshold; posterior.samples()];
        Self { posterior, criterion, thresholds, feasibility }
    }

    /// Model of the objective.
    pub fn posterior(&self) -> &StackedPosterior {
        &self.posterior
    }

    /// The same function with the posterior mean at `point` in each fantasy sample as its threshold.
    #[must_use]
    pub fn with_threshold_at(&self, point: &[f64]) -> Self {
        let prediction = self.posterior.predict(&DMatrix::from_row_slice(1, point.len(), point));
        Self { thresholds: prediction.means().column(0).iter().copied().collect(), ..self.clone() }
    }

    /// Conditions the function on a pending trial at `point`; `normals` are [`FANTASY_SAMPLES`] standard normal
    /// numbers.
    pub fn add_pending(&mut self, point: &[f64], normals: &[f64]) {
        let drawn = self.posterior.fantasize(point, normals);
        let first = self.thresholds[0];
        self.thresholds.resize(drawn.len(), first);
        for (threshold, value) in self.thresholds.iter_mut().zip(drawn) {
            *threshold = threshold.max(value);
        }
    }

    /// Weighted log probability of feasibility of each row of `points`; empty without a feasibility model.
    fn log_feasibilities(&self, points: &DMatrix<f64>) -> Vec<f64> {
        let Some(BoundedOutcome { posterior, threshold, weight }) = &self.feasibility else { return Vec::new() };
        let prediction = posterior.predict(points);
        let log = |(mean, deviation): (&f64, &f64)| weight * log_distribution((mean - threshold) / deviation);
        prediction.means.iter().zip(&prediction.deviations).map(log).collect()
    }
}

impl Acquisition for AcquisitionFunction {
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64> {
        let samples = samples.min(self.thresholds.len());
        let prediction = self.posterior.predict_over(points, samples);
        let means = prediction.means();
        let mut values: Vec<f64> = prediction
            .deviations()
            .iter()
            .enumerate()
            .map(|(i, deviation)| {
                self.criterion.value(means.column(i).as_slice(), *deviation, &self.thresholds[..samples])
            })
            .collect();
        for (value, log) in values.iter_mut().zip(self.log_feasibilities(points)) {
            *value += log;
        }
        values
    }

    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue> {
        let prediction = self.posterior.predict(points);
        let mut by_means = DMatrix::zeros(self.thresholds.len(), points.nrows());
        let mut by_variances = Vec::with_capacity(points.nrows());
        let mut values = Vec::with_capacity(points.nrows());
        for (i, &deviation) in prediction.deviations().iter().enumerate() {
            let means = prediction.means().column(i);
            let mut by_means = by_means.column_mut(i);
            let (value, by_deviation) = self.criterion.value_and_derivatives(
                means.as_slice(),
                deviation,
                &self.thresholds,
                by_means.as_mut_slice(),
            );
            by_variances.push(by_deviation / (2.0 * deviation));
            values.push(value);
        }
        let gradients = self.posterior.gradients(points, &prediction, &by_means, &by_variances);
        let mut results: Vec<AcquisitionValue> =
            values.into_iter().zip(gradients).map(|(value, gradient)| AcquisitionValue { value, gradient }).collect();
        if let Some(feasibility) = &self.feasibility {
            add_log_feasibility(feasibility, points, &mut results);
        }
        results
    }

    fn has_pending(&self) -> bool {
        self.thresholds.len() > 1
    }

    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>) {
        self.add_pending(point, &normals("fantasy", FANTASY_SAMPLES));
    }

    fn screening(&self, points: DMatrix<f64>, samples: usize) -> Screening {
        let (mut predictions, mut log_feasibilities) = (Vec::new(), Vec::new());
        for start in (0..points.nrows()).step_by(BLOCK) {
            let block = points.rows(start, BLOCK.min(points.nrows() - start)).clone_owned();
            log_feasibilities.extend(self.log_feasibilities(&block));
            predictions.push(self.posterior.follow(block, samples));
        }
        Screening { points, predictions, log_feasibilities }
    }

    fn screened(&self, screening: &mut Screening, samples: usize) -> Vec<f64> {
        let mut values = Vec::new();
        for prediction in &mut screening.predictions {
            self.posterior.update(prediction, samples);
            values.extend(prediction.deviations().enumerate().map(|(i, deviation)| {
                let means = prediction.means(i);
                self.criterion.value(means, deviation, &self.thresholds[..means.len()])
            }));
        }
        for (value, log) in values.iter_mut().zip(&screening.log_feasibilities) {
            *value += log;
        }
        values
    }

    fn with_threshold_at(&self, point: &[f64]) -> Option<Box<dyn Acquisition>> {
        Some(Box::new(self.with_threshold_at(point)))
    }
}

/// Adds the weighted log probability of feasibility and its gradient to `results`, one per row of `points` (m x d).
fn add_log_feasibility(feasibility: &BoundedOutcome, points: &DMatrix<f64>, results: &mut [AcquisitionValue]) {
    let BoundedOutcome { posterior, threshold, weight } = feasibility;
    let prediction = posterior.predict(points);
    let mut by_means = DMatrix::zeros(1, points.nrows());
    let mut by_variances = Vec::with_capacity(points.nrows());
    for (i, result) in results.iter_mut().enumerate() {
        let (excess, deviation) = (prediction.means[(0, i)] - threshold, prediction.deviations[i]);
        result.value += weight * log_distribution(excess / deviation);
        let slope = weight * log_distribution_derivative(excess / deviation);
        by_means[(0, i)] = slope / deviation;
        by_variances.push(-slope * excess / (2.0 * deviation.powi(3)));
    }
    let gradients = posterior.gradients(points, &prediction, &by_means, &by_variances);
    for (result, gradient) in results.iter_mut().zip(gradients) {
        for (sum, part) in result.gradient.iter_mut().zip(gradient) {
            *sum += part;
        }
    }
}
