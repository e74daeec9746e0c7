use tunesmith_algorithms::problem::ParameterValues;

use super::part;
use crate::problems::categorical::{choices, coefficient, letter, levels_of, name, satisfiability};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::category;

/// Number of choices in [`chain`].
const CHOICES: usize = 25;
const LEVELS: usize = 5;
/// Number of switches in [`large_clauses`].
const SWITCHES: usize = 60;
/// Number of clauses, of three switches each: as many per switch as in [`crate::problems::categorical::clauses`].
const CLAUSES: usize = 275;

/// 25 choices of five levels. Choices and pairs of neighbouring choices have costs; the value is the mean cost of the
/// choices plus that of the pairs. Dynamic programming finds the optimum.
pub fn chain(instance: u64) -> TestFunction {
    let (optimum, best) = cheapest_chain(instance, CHOICES);
    let minimizer = best.iter().enumerate().map(|(choice, &at)| (name(choice), category(letter(at)))).collect();
    let function = move |point: &ParameterValues| chain_cost(instance, &levels_of::<CHOICES>(point));
    TestFunction::new("chain/d25", choices(&[LEVELS; CHOICES]), optimum, vec![minimizer], function)
}

/// Value of [`chain`] for any number of choices, at least one.
pub(super) fn chain_cost(instance: u64, levels: &[usize]) -> f64 {
    let own: f64 = levels.iter().enumerate().map(|(choice, &level)| own_cost(instance, choice, level)).sum();
    let pairs = levels.windows(2).enumerate();
    let together: f64 = pairs.map(|(choice, pair)| pair_cost(instance, choice, pair[0], pair[1])).sum();
    (own + together) / levels.len() as f64
}

fn own_cost(instance: u64, choice: usize, level: usize) -> f64 {
    coefficient(&[51, part(instance), choice, level])
}

fn pair_cost(instance: u64, choice: usize, level: usize, next: usize) -> f64 {
    coefficient(&[52, part(instance), choice, level, next])
}

/// Minimum of [`chain_cost`] for `choices` choices, with its levels.
pub(super) fn cheapest_chain(instance: u64, choices: usize) -> (f64, Vec<usize>) {
    // The cheapest chain that ends with each level of the last choice.
    let mut ends: Vec<(f64, Vec<usize>)> =
        (0..LEVELS).map(|level| (own_cost(instance, 0, level), vec![level])).collect();
    for choice in 1..choices {
        let cheapest_to = |level: usize| {
            let cost = |end: &(f64, Vec<usize>)| end.0 + pair_cost(instance, choice - 1, end.1[choice - 1], level);
            let before = ends.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("there are levels");
            let levels = before.1.iter().copied().chain([level]).collect();
            (cost(before) + own_cost(instance, choice, level), levels)
        };
        ends = (0..LEVELS).map(cheapest_to).collect();
    }
    let (_, levels) = ends.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are levels");
    (chain_cost(instance, &levels), levels)
}

/// 60 switches and 275 clauses: a larger [`crate::problems::categorical::clauses`], after the maximum satisfiability
/// problem of 60 switches of Oh, Tomczak, Gavves & Welling 2019 (COMBO). One assignment, different for each instance,
/// satisfies all clauses.
pub fn large_clauses(instance: u64) -> TestFunction {
    let planted: Vec<bool> = (0..SWITCHES).map(|switch| coefficient(&[53, part(instance), switch]) < 0.5).collect();
    satisfiability("clauses/d60", &planted, CLAUSES, |clause, purpose, place| {
        coefficient(&[54, part(instance), clause, purpose as usize, place])
    })
}
