//! The default search is better than random search: 30 seeds, 40 evaluations, p < 0.01.
//!
//! A one-sided sign test compares the simple regrets seed by seed: under the null hypothesis of no difference, the wins
//! are binomial with p = 1/2 (ties are dropped).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "clippy exempts test functions only, not their helpers")]

use std::sync::atomic::{AtomicU64, Ordering};

use statrs::distribution::{Binomial, DiscreteCDF};

use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::{GpBandit, QuasiRandomSearch, RandomSearch};
use tunesmith_algorithms::problem::{CompletedTrial, TrialId, TrialOutcome};
use tunesmith_benchmark::problem::Problem;
use tunesmith_benchmark::problems::functions::{TestFunction, branin, hartmann6, network_recipe, training_recipe};

const SEEDS: u64 = 30;
const EVALUATIONS: usize = 40;
const THREADS: usize = 2;

/// Runs `designer` on `function` for at most `trials` trials, fewer if the space is exhausted, and returns the values
/// of the function in the order of the trials.
fn simulate(designer: &dyn Designer, function: &TestFunction, trials: usize) -> Vec<f64> {
    let mut completed = Vec::with_capacity(trials);
    let mut values = Vec::with_capacity(trials);
    for index in 0..trials {
        let id = TrialId::FIRST.offset(index as u64);
        let history = History { completed: &completed, pending: &[] };
        let Some(suggestion) = designer.suggest(history, SuggestRequest::one(id)).unwrap().pop() else {
            break;
        };
        let parameters = suggestion.parameters;
        let value = function.value(&parameters);
        values.push(value);
        let outcome = TrialOutcome::measured(vec![value]);
        completed.push(CompletedTrial { id, parameters, outcome });
    }
    values
}

/// Returns the smallest value so far after each trial; shape as `values`. Test functions are minimised.
fn best_so_far(values: &[f64]) -> Vec<f64> {
    let mut best = f64::INFINITY;
    let keep_best = |&value: &f64| {
        best = best.min(value);
        best
    };
    values.iter().map(keep_best).collect()
}

fn regret(function: &TestFunction, designer: &dyn Designer) -> f64 {
    let best = best_so_far(&simulate(designer, function, EVALUATIONS));
    (best[EVALUATIONS - 1] - function.optimum()).max(1e-9)
}

/// Returns the regrets by seed: (GP bandit, random search).
fn regrets(function: &TestFunction) -> Vec<(f64, f64)> {
    let problem = function.statement();
    let next = AtomicU64::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return found;
            }
            let bandit = regret(function, &GpBandit::new(problem.clone(), seed).unwrap());
            found.push((bandit, regret(function, &RandomSearch::new(problem, seed))));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Asserts that the GP bandit is better than random search, and that its median regret is below `least`.
fn assert_beats_random(function: &TestFunction, least: f64) {
    let name = function.name();
    let regrets = regrets(function);
    let wins = regrets.iter().filter(|(bandit, random)| bandit < random).count() as u64;
    let ties = regrets.iter().filter(|(bandit, random)| bandit == random).count() as u64;
    let p_value = Binomial::new(0.5, SEEDS - ties).unwrap().sf(wins.saturating_sub(1));
    let (bandit, random) = (median(regrets.iter().map(|r| r.0)), median(regrets.iter().map(|r| r.1)));
    println!("{name}: median regret {bandit:.2e} against {random:.2e} at random, {wins} wins, p = {p_value:.1e}");
    assert!(wins > 0 && p_value < 0.01, "{name}: {wins} wins and {ties} ties of {SEEDS}");
    assert!(bandit < random && bandit < least, "{name}: {bandit} against {random}");
}

#[test]
fn beats_random_search_on_branin() {
    assert_beats_random(&branin(), 1e-3);
}

#[test]
fn beats_random_search_on_hartmann6() {
    assert_beats_random(&hartmann6(), 1e-2);
}

#[test]
fn beats_random_search_on_a_finite_space() {
    assert_beats_random(&network_recipe(), 1e-2);
}

#[test]
fn beats_random_search_on_a_mixed_space() {
    assert_beats_random(&training_recipe(), 1e-1);
}

#[test]
fn a_study_of_a_finite_space_ends_with_its_optimum() {
    let function = network_recipe();
    let values = simulate(&RandomSearch::new(function.statement(), 1), &function, 3_000);
    assert_eq!(values.len(), 2_304);
    assert!((best_so_far(&values)[2_303] - function.optimum()).abs() < 1e-12);
}

#[test]
fn more_trials_come_closer_to_the_optimum() {
    let function = branin();
    let values = simulate(&QuasiRandomSearch::new(function.statement(), 1), &function, 512);
    let best = best_so_far(&values);
    assert!(best.is_sorted_by(|a, b| a >= b));
    assert!(best[511] - function.optimum() < 0.5, "{}", best[511]);
    assert!(best[511] < best[7]);
}
