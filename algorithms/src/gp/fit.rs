//! Maximum a posteriori hyperparameters.
//!
//! A fit from the default starts is a long search; a refit from an earlier result takes a few steps. [`super::loss`]
//! defines the loss.

use super::hyperparameters::{Hyperparameters, noise_log_priors};
use super::loss::Loss;
use super::training_set::TrainingSet;
use crate::numerics::lbfgs::{ProjectedLbfgs, minimize};
use crate::problem::ObservationNoise;

/// Number of batches of evaluations per fit (a guess).
const MAX_ROUNDS: u64 = 50;
/// Number of observations up to which a second start is affordable; the likelihood often has two modes.
const TWO_STARTS_UP_TO: usize = 64;
/// Noise variance of a further start where unknown noise may be high (a guess).
const HIGH_NOISE_START: f64 = 0.2;
/// Number of batches of evaluations per refit (measured, see docs/experiments/006).
const MAX_REFIT_ROUNDS: u64 = 10;

/// Finds the hyperparameters with the largest posterior density. Returns the defaults if no point can be evaluated or
/// `data` is empty.
pub fn fit(data: &TrainingSet) -> Hyperparameters {
    let default = || Hyperparameters::default_for(&data.categorical);
    if data.values.is_empty() {
        return default();
    }
    let [noise, larger_noise] = match data.noise {
        ObservationNoise::Auto => [1e-3, 1e-2],
        ObservationNoise::Low => [1e-6, 1e-5],
        ObservationNoise::High => [0.1, 0.3],
    };
    let mut starts = vec![Hyperparameters::start(&data.categorical, 1.0, noise)];
    if data.values.len() <= TWO_STARTS_UP_TO {
        // Smoother and noisier, the other mode that the likelihood often has.
        starts.push(Hyperparameters::start(&data.categorical, 4.0, larger_noise));
    }
    if noise_log_priors(data).len() > 1 {
        starts.push(Hyperparameters::start(&data.categorical, 1.0, HIGH_NOISE_START));
    }
    search(data, &starts, MAX_ROUNDS).unwrap_or_else(default)
}

/// [`fit`] with a few steps from `start`, fitted to similar data.
pub fn refit(data: &TrainingSet, start: &Hyperparameters) -> Hyperparameters {
    let default = || Hyperparameters::default_for(&data.categorical);
    if data.values.is_empty() {
        return default();
    }
    search(data, &[start.to_logs()], MAX_REFIT_ROUNDS).unwrap_or_else(default)
}

/// Best result of a search from `starts`; `None` if no point can be evaluated.
fn search(data: &TrainingSet, starts: &[Vec<f64>], max_rounds: u64) -> Option<Hyperparameters> {
    let (lower, upper) = Hyperparameters::bounds(&data.categorical);
    let solver = ProjectedLbfgs::new(lower, upper, starts, 0.7, 1e-3, 1e-6);
    let results = minimize(Loss::new(data), solver, max_rounds);
    let (t, cost) = results.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    cost.is_finite().then(|| Hyperparameters::from_logs(&t, &data.categorical))
}
