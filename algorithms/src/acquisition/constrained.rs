//! An acquisition function where outcomes must reach thresholds: constraints, and trials that may fail.
//!
//! Notation: `g_c` outcome `c`, maximised, with posterior mean `mu_c` and deviation `s_c`; `t_c` its threshold.
//!
//! To the value of a point comes `sum_c ln Phi((mu_c - t_c) / s_c)`, the log probability that every outcome reaches its
//! threshold. Source: Gardner et al. 2014, "Bayesian Optimization with Inequality Constraints", ICML, equation 6, in
//! logarithms as in Ament et al. 2023, arXiv 2310.20708, section 4.2. While no usable trial is known, that sum alone is
//! maximised.
//!
//! Pending trials do not move the probabilities. Where these stand alone, `ln(s'_c / s_c)` is added, averaged over the
//! outcomes, where `s'_c` is the deviation once the pending trials are known: minus infinity at a pending point, nothing
//! far from all. Otherwise a batch would be one point many times. (Our own; a believer in the mean would be drawn to
//! its own points.)

use nalgebra::DMatrix;

use super::function::AcquisitionValue;
use super::interface::Acquisition;
use crate::gp::Posterior;
use crate::numerics::normal::{log_distribution, log_distribution_derivative};

/// An outcome that is to reach a threshold.
#[derive(Debug, Clone)]
pub struct BoundedOutcome {
    /// Its model; larger is better.
    pub posterior: Posterior,
    /// What it is to reach.
    pub threshold: f64,
}

/// An acquisition function, or none yet, and the probability that outcomes reach their thresholds.
pub struct Constrained {
    objective: Option<Box<dyn Acquisition>>,
    outcomes: Vec<BoundedOutcome>,
    /// The models of the outcomes once pending trials are known; only without an objective, and empty at first.
    informed: Vec<Posterior>,
}

impl Constrained {
    /// `objective` where all of `outcomes` reach their thresholds; without one, the probability that they do.
    pub fn new(objective: Option<Box<dyn Acquisition>>, outcomes: Vec<BoundedOutcome>) -> Self {
        Self { objective, outcomes, informed: Vec::new() }
    }

    /// Adds the probabilities and what pending trials take away.
    fn add_to(&self, points: &DMatrix<f64>, values: &mut [f64]) {
        for (place, BoundedOutcome { posterior, threshold }) in self.outcomes.iter().enumerate() {
            let prediction = posterior.predict(points);
            let informed = self.informed.get(place).map(|informed| informed.predict(points).deviations);
            for (i, value) in values.iter_mut().enumerate() {
                let deviation = prediction.deviations[i];
                *value += log_distribution((prediction.means[(0, i)] - threshold) / deviation);
                if let Some(informed) = &informed {
                    *value += (informed[i] / deviation).ln() / self.outcomes.len() as f64;
                }
            }
        }
    }
}

impl Acquisition for Constrained {
    fn values(&self, points: &DMatrix<f64>) -> Vec<f64> {
        self.values_in(points, usize::MAX)
    }

    fn values_in(&self, points: &DMatrix<f64>, worlds: usize) -> Vec<f64> {
        let mut values = match &self.objective {
            Some(objective) => objective.values_in(points, worlds),
            None => vec![0.0; points.nrows()],
        };
        self.add_to(points, &mut values);
        values
    }

    fn values_and_gradients(&self, points: &DMatrix<f64>) -> Vec<AcquisitionValue> {
        let mut results = match &self.objective {
            Some(objective) => objective.values_and_gradients(points),
            None => vec![AcquisitionValue { value: 0.0, gradient: vec![0.0; points.ncols()] }; points.nrows()],
        };
        let mut values: Vec<f64> = results.iter().map(|result| result.value).collect();
        self.add_to(points, &mut values);
        for (result, value) in results.iter_mut().zip(values) {
            result.value = value;
        }
        let mut add = |gradients: Vec<Vec<f64>>| {
            for (result, gradient) in results.iter_mut().zip(gradients) {
                result.gradient.iter_mut().zip(gradient).for_each(|(sum, part)| *sum += part);
            }
        };
        let share = 0.5 / self.outcomes.len() as f64;
        for (place, BoundedOutcome { posterior, threshold }) in self.outcomes.iter().enumerate() {
            let prediction = posterior.predict(points);
            let mut by_means = DMatrix::zeros(1, points.nrows());
            let mut by_variances = Vec::with_capacity(points.nrows());
            for (i, &deviation) in prediction.deviations.iter().enumerate() {
                let excess = prediction.means[(0, i)] - threshold;
                let slope = log_distribution_derivative(excess / deviation);
                by_means[(0, i)] = slope / deviation;
                let of_informed = if self.informed.is_empty() { 0.0 } else { share / deviation.powi(2) };
                by_variances.push(-slope * excess / (2.0 * deviation.powi(3)) - of_informed);
            }
            add(posterior.gradients(points, &prediction, &by_means, &by_variances));
            if let Some(informed) = self.informed.get(place) {
                let prediction = informed.predict(points);
                let by_variances: Vec<f64> =
                    prediction.deviations.iter().map(|deviation| share / deviation.powi(2)).collect();
                add(informed.gradients(points, &prediction, &DMatrix::zeros(1, points.nrows()), &by_variances));
            }
        }
        results
    }

    fn has_pending(&self) -> bool {
        self.objective.as_ref().is_some_and(|objective| objective.has_pending())
    }

    fn add_pending(&mut self, point: &[f64], normals: &dyn Fn(&str, usize) -> Vec<f64>) {
        match &mut self.objective {
            Some(objective) => objective.add_pending(point, normals),
            None => {
                if self.informed.is_empty() {
                    self.informed = self.outcomes.iter().map(|outcome| outcome.posterior.clone()).collect();
                }
                for informed in &mut self.informed {
                    informed.fantasize(point, &[0.0]);
                }
            }
        }
    }
}
