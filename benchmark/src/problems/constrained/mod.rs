//! Minimisation problems with constraints and a known feasible optimum. A constraint is satisfied if it is at most 0.
//!
//! Constraints with a limit are divided by it, so that they have the same scale. The stated minimizers are about 1e-12
//! of that scale inside the feasible region, so that rounding keeps them feasible. A test checks each optimum: it is
//! the value of a feasible point, and no descent finds a better one.

mod engineering;
mod synthetic;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use engineering::{pressure_vessel, speed_reducer, tension_spring, welded_beam};
pub use synthetic::{gardner1, gardner2, gramacy};

use super::functions::builders;
use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Returns the problems of the suite `constrained`: three with two parameters and four engineering designs.
pub fn constrained() -> Vec<Box<dyn Problem>> {
    functions().into_iter().map(|function| Box::new(function) as Box<dyn Problem>).collect()
}

fn functions() -> Vec<ConstrainedFunction> {
    vec![gramacy(), gardner1(), gardner2(), tension_spring(), pressure_vessel(), welded_beam(), speed_reducer()]
}

/// A function to be minimised under constraints.
#[derive(Debug, Clone)]
pub struct ConstrainedFunction {
    profile: Profile,
    optimum: f64,
    minimizer: ParameterValues,
    function: fn(&ParameterValues) -> Constrained,
}

/// The value and the constraints at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Constrained {
    /// The minimised value.
    pub value: f64,
    /// The constraints, at least one; satisfied if at most 0.
    pub constraints: Vec<f64>,
}

impl Constrained {
    /// Whether all constraints are satisfied.
    pub fn is_feasible(&self) -> bool {
        self.constraints.iter().all(|&constraint| constraint <= 0.0)
    }
}

impl ConstrainedFunction {
    fn new(
        name: &str,
        parameters: Vec<ParameterSpec>,
        optimum: f64,
        minimizer: ParameterValues,
        function: fn(&ParameterValues) -> Constrained,
    ) -> Self {
        let statement = builders::statement(parameters, &[Goal::Minimize]);
        let quality = Quality::Value { best_known: Some(optimum) };
        let constraints = function(&minimizer).constraints.len();
        let profile = Profile { constraints, ..Profile::new(name, statement, quality) };
        Self { profile, optimum, minimizer, function }
    }

    /// The smallest feasible value, or the smallest known one if the function's documentation states so.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// A feasible point whose value equals the optimum up to a relative error of 1e-9.
    pub fn minimizer(&self) -> &ParameterValues {
        &self.minimizer
    }

    /// Returns the value and the constraints at a point of the space.
    pub fn at(&self, point: &ParameterValues) -> Constrained {
        (self.function)(point)
    }
}

impl Problem for ConstrainedFunction {
    /// Its usual name: `gramacy`.
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        let Constrained { value, constraints } = self.at(point);
        Evaluation::measured(vec![value], vec![value], constraints)
    }
}
