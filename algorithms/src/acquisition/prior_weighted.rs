//! Acquisition function weighted by the user's prior density of the optimum.
//!
//! Adds `w ln pi(u)` to the value of a point, where `pi` is the [prior density](crate::prior) and `w` a weight that the
//! caller decreases with the number of trials. Pending trials do not change this term.

use nalgebra::DMatrix;

use super::interface::{Acquisition, AcquisitionValue, Screening};
use crate::encoding::Encoding;
use crate::prior::PriorDensity;

/// Acquisition function plus the weighted log prior density.
pub struct PriorWeighted {
    acquisition: Box<dyn Acquisition>,
    prior: PriorDensity,
    encoding: Encoding,
    weight: f64,
}

impl PriorWeighted {
    /// Adds `weight`, above 0, times the log density of `prior` to `acquisition`, over points of `encoding`.
    pub fn new(acquisition: Box<dyn Acquisition>, prior: PriorDensity, encoding: Encoding, weight: f64) -> Self {
        Self { acquisition, prior, encoding, weight }
    }

    fn add_to(&self, points: &DMatrix<f64>, values: &mut [f64]) {
        let mut point = vec![0.0; points.ncols()];
        for (value, row) in values.iter_mut().zip(points.row_iter()) {
            point.iter_mut().zip(row.iter()).for_each(|(u, coordinate)| *u = *coordinate);
            *value += self.weight * self.prior.log_density(&self.encoding, &point);
        }
    }
}

impl Acquisition for PriorWeighted {
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64> {
        let mut values = self.acquisition.values_over(points, samples);
        self.add_to(points, &mut values);
        values
    }

    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue> {
        let mut results = self.acquisition.values_and_gradients(points);
        for (result, point) in results.iter_mut().zip(points.row_iter()) {
            let point: Vec<f64> = point.iter().copied().collect();
            result.value += self.weight * self.prior.log_density(&self.encoding, &point);
            self.prior.add_gradient(&self.encoding, &point, self.weight, &mut result.gradient);
        }
        results
    }

    fn has_pending(&self) -> bool {
        self.acquisition.has_pending()
    }

    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>) {
        self.acquisition.add_pending(point, normals);
    }

    fn screening(&self, points: DMatrix<f64>, samples: usize) -> Screening {
        self.acquisition.screening(points, samples)
    }

    fn screened(&self, screening: &mut Screening, samples: usize) -> Vec<f64> {
        let mut values = self.acquisition.screened(screening, samples);
        self.add_to(&screening.points, &mut values);
        values
    }

    fn with_threshold_at(&self, point: &[f64]) -> Option<Box<dyn Acquisition>> {
        let acquisition = self.acquisition.with_threshold_at(point)?;
        let Self { prior, encoding, weight, .. } = self;
        Some(Box::new(Self { acquisition, prior: prior.clone(), encoding: encoding.clone(), weight: *weight }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquisition::tests::central_difference;
    use crate::acquisition::{AcquisitionFunction, Criterion};
    use crate::gp::{Hyperparameters, Kernel, Posterior, TrainingSet};
    use crate::problem::{ParameterKind, ParameterPrior, ParameterSpec, ParameterValue, ScaleType, SearchSpace};

    fn plain() -> Box<dyn Acquisition> {
        let kernel = Kernel {
            inverse_squared_lengthscales: vec![6.0, 3.0],
            categorical: vec![false; 2],
            radial_variance: 1.2,
            linear_variance: 0.4,
        };
        let points = DMatrix::from_row_slice(3, 2, &[0.1, 0.8, 0.6, 0.3, 0.9, 0.9]);
        let data = TrainingSet {
            points,
            values: vec![0.3, 1.0, -1.2],
            noise_weights: vec![1.0; 3],
            added_noise: vec![0.0; 3],
            noise: Default::default(),
            categorical: vec![false; 2],
        };
        let posterior = Posterior::new(Hyperparameters { kernel, noise_variance: 1e-3 }, &data).unwrap();
        Box::new(AcquisitionFunction::new(posterior, Criterion::ExpectedImprovement, 1.0, None))
    }

    /// Normal prior on the second of two coordinates with mode 0.25 and spread 0.2; weight 2.
    fn weighted() -> PriorWeighted {
        let kind = || ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let prior = ParameterPrior::Normal { mode: ParameterValue::Double(0.25), spread: 0.2 };
        let second = ParameterSpec::new("b", kind()).unwrap().with_prior(prior).unwrap();
        let space = SearchSpace::new(vec![ParameterSpec::new("a", kind()).unwrap(), second]).unwrap();
        let encoding = Encoding::new(&space);
        PriorWeighted::new(plain(), PriorDensity::new(&space, &encoding).unwrap(), encoding, 2.0)
    }

    fn probes() -> DMatrix<f64> {
        DMatrix::from_row_slice(3, 2, &[0.3, 0.5, 0.7, 0.2, 0.45, 0.85])
    }

    #[test]
    fn weighted_log_density_is_added_with_and_without_screening_and_pending_trials() {
        let (mut alone, mut weighted) = (plain(), weighted());
        let mut screening = weighted.screening(probes(), usize::MAX);
        let normals = |_: &str, count: usize| (0..count).map(|i| (i as f64 - 63.5) / 40.0).collect::<Vec<f64>>();
        for pending in [false, true] {
            if pending {
                alone.add_pending(&[0.5, 0.4], &normals);
                weighted.add_pending(&[0.5, 0.4], &normals);
            }
            let (plain, values) = (alone.values(&probes()), weighted.values(&probes()));
            let screened = weighted.screened(&mut screening, usize::MAX);
            for (i, b) in [0.5, 0.2, 0.85].into_iter().enumerate() {
                let density = (-0.5 * ((b - 0.25_f64) / 0.2).powi(2)).exp();
                let floor = (-7.0_f64).exp();
                let expected = plain[i] + 2.0 * ((density + floor) / (1.0 + floor)).ln();
                assert!((values[i] - expected).abs() < 1e-9, "{} {expected}", values[i]);
                assert!((screened[i] - expected).abs() < 1e-9, "{} {expected}", screened[i]);
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let weighted = weighted();
        for (i, at) in weighted.values_and_gradients(&probes()).into_iter().enumerate() {
            for (j, gradient) in at.gradient.into_iter().enumerate() {
                let difference = central_difference(&weighted, &probes(), i, j);
                assert!((gradient - difference).abs() < 1e-5 * difference.abs().max(1.0), "{gradient} {difference}");
            }
        }
    }
}
