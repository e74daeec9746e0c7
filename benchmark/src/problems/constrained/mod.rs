//! Minimisation problems with constraints and a known feasible optimum. A constraint is satisfied if it is at most 0.
//!
//! Constraints with a limit are divided by it, for a common scale. The stated minimizers are about 1e-12 of that scale
//! inside the feasible region, so that rounding keeps them feasible. Tests check that each optimum is the value of a
//! feasible point, and that no descent finds a better one.

mod engineering;
mod synthetic;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterSpec, ParameterValues};

pub use engineering::{pressure_vessel, speed_reducer, tension_spring, welded_beam};
pub use synthetic::{gardner1, gardner2, gramacy};

use super::functions::{TestFunction, builders};
use crate::problem::Evaluation;

/// Problems of the suite `constrained`: three with two parameters and four engineering designs.
pub fn constrained() -> Vec<ConstrainedFunction> {
    vec![gramacy(), gardner1(), gardner2(), tension_spring(), pressure_vessel(), welded_beam(), speed_reducer()]
}

pub type ConstrainedFunction = TestFunction<Constrained>;

#[derive(Debug, Clone, PartialEq)]
pub struct Constrained {
    pub value: f64,
    /// At least one; satisfied if at most 0.
    pub constraints: Vec<f64>,
}

impl Constrained {
    pub fn is_feasible(&self) -> bool {
        self.constraints.iter().all(|&constraint| constraint <= 0.0)
    }
}

impl From<Constrained> for Evaluation {
    fn from(Constrained { value, constraints }: Constrained) -> Self {
        Self::measured(vec![value], vec![value], constraints)
    }
}

/// Creates a function with as many constraints as at `minimizer`.
fn function(
    name: &str,
    parameters: Vec<ParameterSpec>,
    optimum: f64,
    minimizer: ParameterValues,
    function: fn(&ParameterValues) -> Constrained,
) -> ConstrainedFunction {
    let constraints = function(&minimizer).constraints.len();
    let mut created = TestFunction::new(name, parameters, optimum, vec![minimizer], function);
    created.profile.constraints = constraints;
    created
}
