use tunesmith_algorithms::problem::ParameterValues;

use super::{coefficient, name};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, category, level, parameter};

/// Number of two-level switches in [`clauses`].
pub(super) const SWITCHES: usize = 24;
/// Number of clauses, of three switches each.
const CLAUSES: usize = 110;

/// Weighted maximum satisfiability: 24 switches and 110 clauses. A clause has a weight between 0.5 and 1.5 and is
/// satisfied if at least one of three switches has its required state. The value is the weight of the unsatisfied
/// clauses. One planted assignment satisfies all of them: a clause that it would violate has its first literal negated.
/// More than four clauses per switch make it hard to find.
pub fn clauses() -> TestFunction {
    let planted: Vec<bool> = (0..SWITCHES).map(planted).collect();
    satisfiability("clauses", &planted, CLAUSES, |clause, purpose, place| match purpose {
        Purpose::Weight => coefficient(&[20, clause]),
        Purpose::Switch => coefficient(&[22, clause, place]),
        Purpose::State => coefficient(&[23, clause, place]),
    })
}

/// State of `switch` in the planted assignment.
pub(super) fn planted(switch: usize) -> bool {
    coefficient(&[21, switch]) < 0.5
}

/// Purpose of a random number of a clause.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Switch,
    State,
    Weight,
}

/// Satisfied if one of three different switches has its required state.
struct Clause {
    weight: f64,
    literals: [(usize, bool); 3],
}

/// Creates the problem of random `clauses` satisfied by the assignment `planted`. `draw` returns the random numbers of
/// a clause, those for a switch or a state by the place of the literal.
pub(crate) fn satisfiability(
    title: &str,
    planted: &[bool],
    clauses: usize,
    draw: impl Fn(usize, Purpose, usize) -> f64,
) -> TestFunction {
    let switches = planted.len();
    let clause = |clause: usize| {
        let mut switch = 0;
        let mut literals = std::array::from_fn(|place| {
            // The second and third switch are among the following ones: three steps cannot return to the first.
            let steps = if place == 0 { switches } else { switches / 3 - 1 };
            switch += 1 + (steps as f64 * draw(clause, Purpose::Switch, place)) as usize;
            (switch % switches, draw(clause, Purpose::State, place) < 0.5)
        });
        if literals.iter().all(|&(switch, state)| planted[switch] != state) {
            literals[0].1 = !literals[0].1;
        }
        Clause { weight: 0.5 + draw(clause, Purpose::Weight, 0), literals }
    };
    let clauses: Vec<Clause> = (0..clauses).map(clause).collect();
    let parameters = (0..switches).map(|switch| parameter(&name(switch), categorical(&["off", "on"]))).collect();
    let state = |on: bool| if on { "on" } else { "off" };
    let minimizer = planted.iter().enumerate().map(|(switch, &on)| (name(switch), category(state(on)))).collect();
    let function = move |point: &ParameterValues| {
        let on: Vec<bool> = (0..switches).map(|switch| level(point, &name(switch)) == "on").collect();
        let unmet = |clause: &&Clause| !clause.literals.iter().any(|&(switch, state)| on[switch] == state);
        clauses.iter().filter(unmet).map(|clause| clause.weight).sum::<f64>() + 0.0
    };
    TestFunction::new(title, parameters, 0.0, vec![minimizer], function)
}
