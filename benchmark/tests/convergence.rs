//! The default search is better than random search: 30 seeds, 40 evaluations, p < 0.01.
//!
//! A one-sided sign test compares the simple regrets seed by seed: under the null hypothesis of no difference, the wins
//! are binomial with p = 1/2 (ties are dropped).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "clippy exempts test functions only, not their helpers")]

use std::sync::atomic::{AtomicU64, Ordering};

use statrs::distribution::{Binomial, DiscreteCDF};

use tunesmith_algorithms::designer::Designer;
use tunesmith_algorithms::designers::{GpBandit, RandomSearch};
use tunesmith_benchmark::problem::Problem;
use tunesmith_benchmark::problems::functions::{
    TestFunction, best_so_far, branin, hartmann6, network_recipe, simulate, training_recipe,
};

const SEEDS: u64 = 30;
const EVALUATIONS: usize = 40;
const THREADS: usize = 2;

fn regret(function: &TestFunction, designer: &dyn Designer) -> f64 {
    let best = best_so_far(&simulate(designer, function, EVALUATIONS).unwrap());
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
