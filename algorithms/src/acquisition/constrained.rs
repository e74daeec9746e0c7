//! Acquisition function with constraints on outcomes, such as metric thresholds or feasibility.
//!
//! Notation: `g_c` outcome `c`, maximised, with posterior mean `mu_c` and deviation `s_c`; `t_c` its threshold.
//!
//! The value of a point is increased by `sum_c ln Phi((mu_c - t_c) / s_c)`, the log probability that every outcome
//! reaches its threshold. Source: Gardner et al. 2014, "Bayesian Optimization with Inequality Constraints", ICML,
//! equation 6, in logarithms as in Ament et al. 2023, arXiv 2310.20708, section 4.2. Without a usable trial, this sum
//! alone is maximised, with `sqrt(s_c^2 + 0.1^2)` in place of `s_c`: a precise model is certain about points that
//! barely reach the threshold, so the search would stop there and the next trial would barely miss it. The margin of a
//! tenth of a standard deviation moves the maximum into the feasible region.
//!
//! A weight above 1 for a log probability avoids points that may violate the outcome even if they promise an
//! improvement.
//!
//! Pending trials do not change the probabilities. While the probabilities are maximised alone, `ln(s'_c / s_c)` is
//! added, averaged over the outcomes, where `s'_c` is the deviation conditioned on the pending trials: very negative at
//! a pending point, 0 far from all of them. Otherwise a batch would repeat one point. This term is ours; conditioning
//! on the predicted mean would attract the search to its own points.

use nalgebra::DMatrix;

use super::interface::{Acquisition, AcquisitionValue};
use crate::gp::Posterior;
use crate::numerics::normal::{log_distribution, log_distribution_derivative};

/// Added to deviations while probabilities are maximised alone, in standard deviations of the outcomes (a guess).
const MARGIN: f64 = 0.1;

/// An outcome with a threshold.
#[derive(Debug, Clone)]
pub struct BoundedOutcome {
    /// Model of the outcome; larger is better.
    pub posterior: Posterior,
    /// Smallest acceptable value.
    pub threshold: f64,
    /// Factor of the log probability; 1 for the probability itself, more to avoid violations.
    pub weight: f64,
}

/// An optional acquisition function, weighted by the probability that outcomes reach their thresholds.
pub struct Constrained {
    objective: Option<Box<dyn Acquisition>>,
    outcomes: Vec<BoundedOutcome>,
    /// Models of the outcomes conditioned on pending trials; only without an objective, and empty without pending
    /// trials.
    conditioned: Vec<Posterior>,
}

impl Constrained {
    /// Weights `objective` by the probability that all of `outcomes` reach their thresholds. Without an objective, the
    /// value is that probability alone.
    pub fn new(objective: Option<Box<dyn Acquisition>>, outcomes: Vec<BoundedOutcome>) -> Self {
        Self { objective, outcomes, conditioned: Vec::new() }
    }

    /// Deviation used in the probability.
    fn widened(&self, deviation: f64) -> f64 {
        if self.objective.is_none() { deviation.hypot(MARGIN) } else { deviation }
    }

    /// Adds the log probabilities and the penalty of pending trials.
    fn add_to(&self, points: &DMatrix<f64>, values: &mut [f64]) {
        for (place, BoundedOutcome { posterior, threshold, weight }) in self.outcomes.iter().enumerate() {
            let prediction = posterior.predict(points);
            let conditioned = self.conditioned.get(place).map(|conditioned| conditioned.predict(points).deviations);
            for (i, value) in values.iter_mut().enumerate() {
                let deviation = prediction.deviations[i];
                *value += weight * log_distribution((prediction.means[(0, i)] - threshold) / self.widened(deviation));
                if let Some(conditioned) = &conditioned {
                    *value += (conditioned[i] / deviation).ln() / self.outcomes.len() as f64;
                }
            }
        }
    }
}

impl Acquisition for Constrained {
    fn values_over(&self, points: &DMatrix<f64>, samples: usize) -> Vec<f64> {
        let mut values = match &self.objective {
            Some(objective) => objective.values_over(points, samples),
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
        for (place, BoundedOutcome { posterior, threshold, weight }) in self.outcomes.iter().enumerate() {
            let prediction = posterior.predict(points);
            let mut by_means = DMatrix::zeros(1, points.nrows());
            let mut by_variances = Vec::with_capacity(points.nrows());
            for (i, &deviation) in prediction.deviations.iter().enumerate() {
                let excess = prediction.means[(0, i)] - threshold;
                let widened = self.widened(deviation);
                let slope = weight * log_distribution_derivative(excess / widened);
                by_means[(0, i)] = slope / widened;
                let of_conditioned = if self.conditioned.is_empty() { 0.0 } else { share / deviation.powi(2) };
                by_variances.push(-slope * excess / (2.0 * widened.powi(3)) - of_conditioned);
            }
            add(posterior.gradients(points, &prediction, &by_means, &by_variances));
            if let Some(conditioned) = self.conditioned.get(place) {
                let prediction = conditioned.predict(points);
                let by_variances: Vec<f64> =
                    prediction.deviations.iter().map(|deviation| share / deviation.powi(2)).collect();
                add(conditioned.gradients(points, &prediction, &DMatrix::zeros(1, points.nrows()), &by_variances));
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
                if self.conditioned.is_empty() {
                    self.conditioned = self.outcomes.iter().map(|outcome| outcome.posterior.clone()).collect();
                }
                for conditioned in &mut self.conditioned {
                    conditioned.fantasize(point, &[0.0]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::acquisition::{AcquisitionFunction, Criterion};
    use crate::gp::{Hyperparameters, Kernel, TrainingSet};
    use crate::numerics::latin_hypercube::stratified_normals;
    use crate::numerics::normal::distribution;
    use crate::problem::TrialId;
    use crate::rng::stream;

    fn points(n: usize, seed: u64) -> DMatrix<f64> {
        let mut rng = stream(seed, TrialId(1), "constrained tests");
        DMatrix::from_fn(n, 2, |_, _| rng.random())
    }

    fn posterior(f: impl Fn(f64, f64) -> f64) -> Posterior {
        let points = points(6, 1);
        let values = points.row_iter().map(|row| f(row[0], row[1])).collect();
        let kernel = Kernel {
            inverse_squared_lengthscales: vec![6.0, 3.0],
            categorical: vec![false; 2],
            radial_variance: 1.2,
            linear_variance: 0.4,
        };
        let data = TrainingSet {
            points,
            values,
            noise_weights: vec![1.0; 6],
            added_noise: vec![0.0; 6],
            categorical: vec![false; 2],
            noise: Default::default(),
        };
        Posterior::new(Hyperparameters { kernel, noise_variance: 1e-3 }, &data).unwrap()
    }

    fn outcomes() -> Vec<BoundedOutcome> {
        vec![
            BoundedOutcome { posterior: posterior(|a, b| a - b), threshold: 0.3, weight: 1.0 },
            BoundedOutcome { posterior: posterior(|a, b| a * b), threshold: -0.2, weight: 2.5 },
        ]
    }

    fn objective() -> Box<dyn Acquisition> {
        let posterior = posterior(|a, b| (5.0 * a).sin() + 0.3 * b);
        Box::new(AcquisitionFunction::new(posterior, Criterion::ExpectedImprovement, 0.6, None))
    }

    fn add_pending(acquisition: &mut Constrained, point: &[f64], trial: u64) {
        acquisition
            .add_pending(point, &|purpose, count| stratified_normals(&mut stream(3, TrialId(trial), purpose), count));
    }

    #[test]
    fn value_contains_the_probability_of_each_outcome() {
        let probes = points(10, 2);
        let with = Constrained::new(Some(objective()), outcomes()).values(&probes);
        let alone = Constrained::new(None, outcomes()).values(&probes);
        let without = objective().values(&probes);
        for i in 0..probes.nrows() {
            let probability = |outcome: &BoundedOutcome| {
                let prediction = outcome.posterior.predict(&probes);
                let excess = prediction.means[(0, i)] - outcome.threshold;
                let deviation = prediction.deviations[i];
                [deviation, (deviation * deviation + 0.01).sqrt()]
                    .map(|deviation| distribution(excess / deviation).powf(outcome.weight))
            };
            let factors: Vec<[f64; 2]> = outcomes().iter().map(probability).collect();
            let [sharp, wide] = [0, 1].map(|kind| factors.iter().map(|factor| factor[kind]).product::<f64>());
            assert!((alone[i].exp() - wide).abs() < 1e-12, "{} {wide}", alone[i].exp());
            assert!((with[i] - without[i] - sharp.ln()).abs() < 1e-12 * with[i].abs().max(1.0));
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let probes = points(8, 4);
        for (objective, pending) in [(Some(objective()), 0), (Some(self::objective()), 2), (None, 0), (None, 2)] {
            let mut acquisition = Constrained::new(objective, outcomes());
            for (i, row) in points(pending, 5).row_iter().enumerate() {
                add_pending(&mut acquisition, &row.iter().copied().collect::<Vec<f64>>(), i as u64 + 1);
            }
            for (i, at) in acquisition.values_and_gradients(&probes).into_iter().enumerate() {
                for (j, gradient) in at.gradient.into_iter().enumerate() {
                    let difference = crate::acquisition::tests::central_difference(&acquisition, &probes, i, j);
                    assert!(
                        (gradient - difference).abs() < 1e-5 * difference.abs().max(1.0),
                        "{gradient} {difference}"
                    );
                }
            }
        }
    }

    #[test]
    fn pending_point_is_penalised_without_an_objective() {
        let probes = points(4, 6);
        let fresh = Constrained::new(None, outcomes()).values(&probes);
        let mut acquisition = Constrained::new(None, outcomes());
        add_pending(&mut acquisition, &probes.row(0).iter().copied().collect::<Vec<f64>>(), 1);
        let after = acquisition.values(&probes);
        assert!(after[0] < fresh[0] - 4.0, "{} {}", after[0], fresh[0]);
        assert!(after.iter().zip(&fresh).all(|(after, fresh)| after.is_finite() && after <= fresh));
    }
}
