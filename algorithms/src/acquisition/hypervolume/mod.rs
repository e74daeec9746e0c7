//! Expected hypervolume improvement: the expected gain in dominated volume.
//!
//! For one to three objectives, all maximised, each with its own model. The caller provides the front of the results
//! and the reference point of the volume, for example by [`infer_reference_point`].
//!
//! Sources: Emmerich et al. 2011, "Hypervolume-based expected improvement", CEC, for the criterion; exact values in the
//! files `boxes` and `improvement`; pending trials as in Daulton et al. 2020, arXiv 2006.05078, section 4.1, except
//! that each fantasy sample has an exact value: with pending trials the value is `ln` of the mean over
//! [`FANTASY_SAMPLES`] samples, in each of which the drawn outcomes of pending trials belong to the front.

mod boxes;
mod improvement;
#[cfg(test)]
mod tests;

use nalgebra::DMatrix;

use self::boxes::{Boxes, MOST_OBJECTIVES};
use self::improvement::{log_improvement, log_improvement_and_derivatives, log_sum};
use super::interface::{Acquisition, AcquisitionValue};
use crate::gp::Posterior;

/// Number of fantasy samples with pending trials: a sixteenth of that for one objective, because each sample has its
/// own front and costs as much as a search without pending trials.
pub const FANTASY_SAMPLES: usize = 8;
/// Distance of the reference point from the front of many results, as a share of the front's range (Ishibuchi et al. 2011,
/// as in BoTorch's `infer_reference_point`; measured, see docs/experiments/010).
const REFERENCE_MARGIN: f64 = 0.1;
/// The same for the front of at most [`FEW_RESULTS`], whose range is a fraction of that to be found; it decreases with the
/// square of their number (measured, see docs/experiments/025).
const EARLY_MARGIN: f64 = 2.0;
const FEW_RESULTS: f64 = 10.0;

/// Model of one objective.
#[derive(Debug, Clone)]
pub struct ObjectiveModel {
    /// Metric name, which keys the random numbers.
    pub name: String,
    /// Model of the objective; larger is better.
    pub posterior: Posterior,
}

/// Logarithm of expected hypervolume improvement.
#[derive(Debug, Clone)]
pub struct HypervolumeImprovement {
    objectives: Vec<ObjectiveModel>,
    reference_point: Vec<f64>,
    /// Results in each fantasy sample.
    results: Vec<Vec<Vec<f64>>>,
    /// Part of objective space not dominated by the results, per sample.
    boxes: Vec<Boxes>,
}

impl HypervolumeImprovement {
    /// Largest number of objectives.
    pub const MOST_OBJECTIVES: usize = MOST_OBJECTIVES;

    /// Creates the improvement over `results` (one value per objective each) in the volume above `reference_point`.
    /// `None` without objectives or with more than [`Self::MOST_OBJECTIVES`].
    pub fn new(objectives: Vec<ObjectiveModel>, results: Vec<Vec<f64>>, reference_point: Vec<f64>) -> Option<Self> {
        if objectives.is_empty() || objectives.len() > MOST_OBJECTIVES || objectives.len() != reference_point.len() {
            return None;
        }
        let boxes = vec![Boxes::not_dominated(&results, &reference_point)];
        Some(Self { objectives, reference_point, results: vec![results], boxes })
    }
}

/// Predictions of each objective at m points: means S x m, deviations of length m.
struct Marginals {
    means: Vec<DMatrix<f64>>,
    deviations: Vec<Vec<f64>>,
}

impl Marginals {
    fn at(&self, sample: usize, point: usize) -> (Vec<f64>, Vec<f64>) {
        (
            self.means.iter().map(|means| means[(sample, point)]).collect(),
            self.deviations.iter().map(|deviations| deviations[point]).collect(),
        )
    }
}

impl Acquisition for HypervolumeImprovement {
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64> {
        let samples = samples.min(self.boxes.len());
        let predictions = self.objectives.iter().map(|objective| objective.posterior.predict_over(points, samples));
        let (means, deviations) = predictions.map(|prediction| (prediction.means, prediction.deviations)).unzip();
        let marginals = Marginals { means, deviations };
        let mut per_sample = vec![0.0; samples];
        let one = |point: usize| {
            for (sample, value) in per_sample.iter_mut().enumerate() {
                let (means, deviations) = marginals.at(sample, point);
                *value = log_improvement(&self.boxes[sample], &means, &deviations);
            }
            log_sum(&per_sample) - (samples as f64).ln()
        };
        (0..points.nrows()).map(one).collect()
    }

    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue> {
        let (count, samples) = (points.nrows(), self.boxes.len());
        let predictions: Vec<_> = self.objectives.iter().map(|objective| objective.posterior.predict(points)).collect();
        let marginals = Marginals {
            means: predictions.iter().map(|prediction| prediction.means.clone()).collect(),
            deviations: predictions.iter().map(|prediction| prediction.deviations.clone()).collect(),
        };
        let mut by_means = vec![DMatrix::zeros(samples, count); self.objectives.len()];
        let mut by_variances = vec![vec![0.0; count]; self.objectives.len()];
        let mut results = Vec::with_capacity(count);
        for point in 0..count {
            let per_sample: Vec<_> = (0..samples)
                .map(|sample| {
                    let (means, deviations) = marginals.at(sample, point);
                    log_improvement_and_derivatives(&self.boxes[sample], &means, &deviations)
                })
                .collect();
            let sum = log_sum(&per_sample.iter().map(|sample| sample.value).collect::<Vec<f64>>());
            for (sample, at) in per_sample.iter().enumerate() {
                let share = (at.value - sum).exp();
                for j in 0..self.objectives.len() {
                    by_means[j][(sample, point)] = share * at.by_means[j];
                    by_variances[j][point] += share * at.by_deviations[j] / (2.0 * marginals.deviations[j][point]);
                }
            }
            results.push(AcquisitionValue { value: sum - (samples as f64).ln(), gradient: vec![0.0; points.ncols()] });
        }
        for (j, objective) in self.objectives.iter().enumerate() {
            let gradients = objective.posterior.gradients(points, &predictions[j], &by_means[j], &by_variances[j]);
            for (result, gradient) in results.iter_mut().zip(gradients) {
                result.gradient.iter_mut().zip(gradient).for_each(|(sum, part)| *sum += part);
            }
        }
        results
    }

    fn has_pending(&self) -> bool {
        self.boxes.len() > 1
    }

    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>) {
        let draw = |objective: &mut ObjectiveModel| {
            objective.posterior.fantasize(point, &normals(&format!("fantasy/{}", objective.name), FANTASY_SAMPLES))
        };
        let drawn: Vec<Vec<f64>> = self.objectives.iter_mut().map(draw).collect();
        let first = self.results[0].clone();
        self.results.resize(FANTASY_SAMPLES, first);
        for (sample, results) in self.results.iter_mut().enumerate() {
            results.push(drawn.iter().map(|values| values[sample]).collect());
        }
        self.boxes = self.results.iter().map(|results| Boxes::not_dominated(results, &self.reference_point)).collect();
    }
}

/// Infers a reference point: in each objective, the worst value on the `front` minus a share of the range of the front, 2 for
/// up to ten `results` and 0.1 from 45 on. If that range is 0, as with a single point, uses the range of all `results`, or 1 if
/// that is 0 too.
pub fn infer_reference_point(front: &[Vec<f64>], results: &[Vec<f64>]) -> Vec<f64> {
    let few = (FEW_RESULTS / results.len() as f64).powi(2).min(1.0);
    let margin = (EARLY_MARGIN * few).max(REFERENCE_MARGIN);
    let objectives = front.first().map_or(0, Vec::len);
    let extent = |points: &[Vec<f64>], j: usize| {
        let values = points.iter().map(|point| point[j]);
        let worst = values.clone().fold(f64::INFINITY, f64::min);
        (worst, values.fold(f64::NEG_INFINITY, f64::max) - worst)
    };
    let reference = |j: usize| {
        let (worst, range) = extent(front, j);
        let (_, whole) = extent(results, j);
        let range = [range, whole].into_iter().find(|range| *range > 0.0).unwrap_or(1.0);
        worst - margin * range
    };
    (0..objectives).map(reference).collect()
}
