//! Many categories without numbers.

use tunesmith_algorithms::problem::ParameterValues;

use super::{category, part};
use crate::problems::categorical::coefficient;
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, level, parameter};

/// Choices of [`chain`].
const CHOICES: usize = 25;
const LEVELS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Switches of [`large_clauses`].
const SWITCHES: usize = 60;
/// Clauses of three switches each: as many per switch as in [`crate::problems::categorical::clauses`].
const CLAUSES: usize = 275;

/// 25 choices of five levels. Each choice has a cost, and so has each pair of neighbouring choices; the value is the mean
/// cost of the choices plus that of the pairs. The optimum is found by dynamic programming.
pub fn chain(instance: u64) -> TestFunction {
    let (optimum, best) = cheapest_chain(instance, CHOICES);
    let parameters = (0..CHOICES).map(|choice| parameter(&name(choice), categorical(&LEVELS))).collect();
    let minimizer = best.iter().enumerate().map(|(choice, &at)| (name(choice), category(LEVELS[at]))).collect();
    let function = move |point: &ParameterValues| {
        let place = |choice: usize| usize::from(level(point, &name(choice)).as_bytes()[0] - b'a');
        let levels: Vec<usize> = (0..CHOICES).map(place).collect();
        chain_cost(instance, &levels)
    };
    TestFunction::new("chain/d25", parameters, optimum, vec![minimizer], function)
}

/// The value of [`chain`] for any number of choices, at least one.
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

/// The smallest value of [`chain_cost`] for `choices` choices, and the levels that have it.
pub(super) fn cheapest_chain(instance: u64, choices: usize) -> (f64, Vec<usize>) {
    // The cheapest chain that ends with each level of the last choice.
    let mut ends: Vec<(f64, Vec<usize>)> =
        (0..LEVELS.len()).map(|level| (own_cost(instance, 0, level), vec![level])).collect();
    for choice in 1..choices {
        let cheapest_to = |level: usize| {
            let cost = |end: &(f64, Vec<usize>)| end.0 + pair_cost(instance, choice - 1, end.1[choice - 1], level);
            let before = ends.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("there are levels");
            let levels = before.1.iter().copied().chain([level]).collect();
            (cost(before) + own_cost(instance, choice, level), levels)
        };
        ends = (0..LEVELS.len()).map(cheapest_to).collect();
    }
    let (_, levels) = ends.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are levels");
    (chain_cost(instance, &levels), levels)
}

/// 60 switches and 275 clauses: [`crate::problems::categorical::clauses`] with more of both, after the maximum
/// satisfiability problem of 60 switches of Oh, Tomczak, Gavves & Welling 2019 (COMBO). One assignment, different for each
/// instance, satisfies all clauses.
pub fn large_clauses(instance: u64) -> TestFunction {
    let planted: Vec<bool> = (0..SWITCHES).map(|switch| coefficient(&[53, part(instance), switch]) < 0.5).collect();
    let clauses: Vec<Clause> = (0..CLAUSES).map(|clause| Clause::new(instance, clause, &planted)).collect();
    let parameters = (0..SWITCHES).map(|switch| parameter(&name(switch), categorical(&["off", "on"]))).collect();
    let state = |on: bool| if on { "on" } else { "off" };
    let minimizer = planted.iter().enumerate().map(|(switch, &on)| (name(switch), category(state(on)))).collect();
    let function = move |point: &ParameterValues| {
        let on: Vec<bool> = (0..SWITCHES).map(|switch| level(point, &name(switch)) == "on").collect();
        let violated = clauses.iter().filter(|clause| !clause.is_satisfied(&on));
        violated.map(|clause| clause.weight).sum::<f64>() + 0.0
    };
    TestFunction::new("clauses/d60", parameters, 0.0, vec![minimizer], function)
}

/// A clause: it is satisfied if one of three different switches has its required state.
struct Clause {
    weight: f64,
    literals: [(usize, bool); 3],
}

impl Clause {
    /// A random clause that `planted` satisfies, with a weight between 0.5 and 1.5.
    fn new(instance: u64, clause: usize, planted: &[bool]) -> Self {
        let draw = |purpose: usize, place: usize| coefficient(&[54, part(instance), clause, purpose, place]);
        let mut switch = 0;
        let mut literals = std::array::from_fn(|place| {
            // The second and third switch are among the next ones: three steps cannot return to the first.
            let steps = if place == 0 { SWITCHES } else { SWITCHES / 3 - 1 };
            switch += 1 + (steps as f64 * draw(0, place)) as usize;
            (switch % SWITCHES, draw(1, place) < 0.5)
        });
        if literals.iter().all(|&(switch, state)| planted[switch] != state) {
            literals[0].1 = !literals[0].1;
        }
        Self { weight: 0.5 + draw(2, 0), literals }
    }

    fn is_satisfied(&self, on: &[bool]) -> bool {
        self.literals.iter().any(|&(switch, state)| on[switch] == state)
    }
}

fn name(index: usize) -> String {
    format!("c{:02}", index + 1)
}
