//! Maximum a posteriori hyperparameters.
//!
//! A fit from the default starts searches long; one from an earlier result is a correction of a few steps. The loss is
//! in [`super::loss`].

use super::hyperparameters::{Hyperparameters, KernelTerms};
use super::loss::Loss;
use super::training_set::TrainingSet;
use crate::numerics::lbfgs::{ProjectedLbfgs, minimize};

/// Batches of evaluations per fit (a guess).
const MAX_ROUNDS: u64 = 50;
/// Up to this many observations a second start is affordable and the likelihood often has two modes.
const TWO_STARTS_UP_TO: usize = 64;
/// The same from an earlier result. Measured with 60 evaluations of 48 functions of five dimensions (bbob and its mixed
/// variant) and 9 tables of trained models, two seeds each: 50 rounds find nothing better (mean log10 gap -0.01 +- 0.06
/// and +0.01 +- 0.10), 5 rounds are rather worse after 30 evaluations of the mixed functions (+0.12 +- 0.09, 13 wins to
/// 24 losses).
const MAX_REFIT_ROUNDS: u64 = 10;

/// The hyperparameters of largest posterior density that the search finds; the default ones if none can be evaluated
/// (and for an empty set, where the priors alone decide).
pub fn fit(data: &TrainingSet) -> Hyperparameters {
    fit_with_terms(data, KernelTerms::default())
}

/// As [`fit`], for a covariance of these terms.
pub fn fit_with_terms(data: &TrainingSet, terms: KernelTerms) -> Hyperparameters {
    let default = || Hyperparameters::default_with_terms(&data.categorical, terms);
    if data.values.is_empty() {
        return default();
    }
    let mut starts = vec![Hyperparameters::start(&data.categorical, terms, 1.0, 1e-3)];
    if data.values.len() <= TWO_STARTS_UP_TO {
        // Smooth and noisier: the other explanation that data often allow.
        starts.push(Hyperparameters::start(&data.categorical, terms, 4.0, 1e-2));
    }
    search(data, terms, &starts, MAX_ROUNDS).unwrap_or_else(default)
}

/// As [`fit_with_terms`], but by a few steps from `start`, which was fitted to similar data with the same terms.
pub fn refit(data: &TrainingSet, terms: KernelTerms, start: &Hyperparameters) -> Hyperparameters {
    let default = || Hyperparameters::default_with_terms(&data.categorical, terms);
    if data.values.is_empty() {
        return default();
    }
    search(data, terms, &[start.to_logs(terms)], MAX_REFIT_ROUNDS).unwrap_or_else(default)
}

/// The best that is found from `starts`; `None` if nothing can be evaluated.
fn search(data: &TrainingSet, terms: KernelTerms, starts: &[Vec<f64>], max_rounds: u64) -> Option<Hyperparameters> {
    let (lower, upper) = Hyperparameters::bounds(&data.categorical, terms);
    let solver = ProjectedLbfgs::new(lower, upper, starts, 0.7, 1e-3, 1e-6);
    let results = minimize(Loss::new(data), solver, max_rounds);
    let (t, cost) = results.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    cost.is_finite().then(|| Hyperparameters::from_logs(&t, &data.categorical))
}
