//! Weighted maximum satisfiability.

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

use super::{coefficient, name, with_minimizer};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, level, parameter};

/// Switches, of two levels each.
pub(super) const SWITCHES: usize = 24;
/// Clauses of three switches each.
const CLAUSES: usize = 110;

/// 24 switches and 110 clauses. A clause has a weight between 0.5 and 1.5 and is satisfied if at least one of three
/// switches has its required state. The value is the weight of the unsatisfied clauses. One assignment satisfies all of
/// them: a clause that it would violate has its first literal negated. More than four clauses per switch make it hard
/// to find.
pub fn clauses() -> TestFunction {
    let value = |point: &ParameterValues| {
        let on: [bool; SWITCHES] = std::array::from_fn(|switch| level(point, &name(switch)) == "on");
        let unmet = |clause: &usize| !literals(*clause).iter().any(|&(switch, state)| on[switch] == state);
        (0..CLAUSES).filter(unmet).map(|clause| 0.5 + coefficient(&[20, clause])).sum::<f64>() + 0.0
    };
    let parameters = (0..SWITCHES).map(|switch| parameter(&name(switch), categorical(&["off", "on"]))).collect();
    let state = |switch| if planted(switch) { "on" } else { "off" };
    let minimizer =
        (0..SWITCHES).map(|switch| (name(switch), ParameterValue::Categorical(state(switch).to_owned()))).collect();
    with_minimizer("clauses", parameters, minimizer, value)
}

/// Returns the state of `switch` in the assignment that satisfies all clauses.
pub(super) fn planted(switch: usize) -> bool {
    coefficient(&[21, switch]) < 0.5
}

/// Returns the three different switches of a clause, each with the state that satisfies it.
fn literals(clause: usize) -> [(usize, bool); 3] {
    let mut switch = 0;
    let mut literals = std::array::from_fn(|place| {
        // Three steps of 1 to 7 cannot return to the same switch.
        let steps = if place == 0 { SWITCHES } else { 7 };
        switch += 1 + (steps as f64 * coefficient(&[22, clause, place])) as usize;
        (switch % SWITCHES, coefficient(&[23, clause, place]) < 0.5)
    });
    if literals.iter().all(|&(switch, state)| planted(switch) != state) {
        literals[0].1 = !literals[0].1;
    }
    literals
}
