use rand_distr::{Distribution, StandardNormal};
use tunesmith_algorithms::problem::ParameterValues;
use tunesmith_algorithms::rng;

use super::functions::{TestFunction, ackley, branin, hartmann6};
use crate::problem::{Draw, Evaluation, EvaluationOutcome, Problem, Profile};

/// Problems of the suite `noisy`: Branin with standard deviation 1 (its values range over 300), Hartmann with 6
/// variables and 0.2 (over 3.3) and Ackley in 6 dimensions with 1 (over 22).
pub fn noisy() -> Vec<Noisy<TestFunction>> {
    [(branin(), 1.0), (hartmann6(), 0.2), (ackley(6), 1.0)].map(|(problem, noise)| Noisy::new(problem, noise)).into()
}

/// A problem with Gaussian noise on observed values; noiseless values are unchanged.
///
/// The noise is independent for each metric and keyed by the seed of the run, the trial and the problem. Repeated
/// evaluations of a point in different trials differ; the noise of a trial is the same for all optimizers. All points
/// of a curve share the noise of the first metric.
#[derive(Debug, Clone)]
pub struct Noisy<P> {
    profile: Profile,
    problem: P,
    standard_deviation: f64,
}

impl<P: Problem> Noisy<P> {
    /// Adds noise of `standard_deviation`, finite and at least 0, in the unit of the metrics, to `problem`; prefixes its name with `noisy_`.
    fn new(problem: P, standard_deviation: f64) -> Self {
        let name = format!("noisy_{}", problem.name());
        let profile = Profile { name, is_noisy: true, ..problem.profile().clone() };
        Self { profile, problem, standard_deviation }
    }
}

impl<P: Problem> Problem for Noisy<P> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        let mut evaluation = self.problem.evaluate(point, draw);
        let mut rng = rng::stream(draw.seed, draw.trial, &format!("noise of {}", self.profile.name));
        let mut noise = || {
            let standard: f64 = StandardNormal.sample(&mut rng);
            self.standard_deviation * standard
        };
        if let EvaluationOutcome::Measured { observed, .. } = &mut evaluation.outcome {
            for (metric, value) in observed.iter_mut().enumerate() {
                let noise = noise();
                *value += noise;
                if metric == 0 {
                    evaluation.curve.iter_mut().for_each(|report| report.value += noise);
                }
            }
        }
        evaluation
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::TrialId;

    use super::*;
    use crate::problems::constrained::gramacy;

    /// Observed and noiseless values at an optimum.
    fn values(problem: &dyn Problem, point: &ParameterValues, seed: u64, trial: u64) -> (Vec<f64>, Vec<f64>) {
        let EvaluationOutcome::Measured { observed, noiseless, .. } =
            problem.evaluate(point, Draw { seed, trial: TrialId(trial) }).outcome
        else {
            panic!("no values")
        };
        (observed, noiseless)
    }

    #[test]
    fn noise_has_the_stated_mean_and_deviation_and_keeps_noiseless_values() {
        let minimizers = [branin(), hartmann6(), ackley(6)].map(|function| function.minimizers()[0].clone());
        let stated = [(0.397887357729738, 1.0), (-3.322368011415515, 0.2), (0.0, 1.0)];
        for ((problem, point), (optimum, deviation)) in noisy().iter().zip(&minimizers).zip(stated) {
            let mut noise = Vec::new();
            for trial in 1..=10_000 {
                let (observed, noiseless) = values(problem, point, 5, trial);
                assert!((noiseless[0] - optimum).abs() < 1e-9, "{}: {noiseless:?}", problem.name());
                noise.push((observed[0] - noiseless[0]) / deviation);
            }
            let mean = noise.iter().sum::<f64>() / 1e4;
            let variance = noise.iter().map(|noise| (noise - mean).powi(2)).sum::<f64>() / 1e4;
            // Four standard errors each.
            assert!(mean.abs() < 0.04, "{}: mean {mean}", problem.name());
            assert!((variance.sqrt() - 1.0).abs() < 0.03, "{}: deviation {}", problem.name(), variance.sqrt());
        }
    }

    #[test]
    fn noise_depends_on_seed_trial_and_problem() {
        let problem = Noisy::new(branin(), 1.0);
        let point = &branin().minimizers()[0].clone();
        let reference = values(&problem, point, 1, 1);
        assert_eq!(reference, values(&problem, point, 1, 1));
        assert_ne!(reference, values(&problem, point, 2, 1));
        assert_ne!(reference, values(&problem, point, 1, 2));
        let hartmann = Noisy::new(hartmann6(), 1.0);
        let (observed, noiseless) = values(&hartmann, &hartmann6().minimizers()[0], 1, 1);
        assert!((observed[0] - noiseless[0] - (reference.0[0] - reference.1[0])).abs() > 1e-6, "problems share noise");
    }

    #[test]
    fn noise_of_deviation_0_changes_nothing_and_constraints_remain() {
        let none = Noisy::new(branin(), 0.0);
        let (observed, noiseless) = values(&none, &branin().minimizers()[1], 1, 1);
        assert_eq!((none.name(), observed), ("noisy_branin", noiseless));
        assert_eq!((none.profile().constraints, Noisy::new(gramacy(), 0.1).profile().constraints), (0, 2));
    }
}
