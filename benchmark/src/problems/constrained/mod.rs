//! Problems with constraints, each at most 0 where it holds, and a known feasible optimum; all to be minimised.
//!
//! Constraints that compare with a limit are divided by it, so that they have one scale. The stated minimizers lie about
//! 1e-12 of that scale inside the feasible region, so that rounding does not carry them out of it. Each problem proves
//! its own optimum in a test: it is taken at a feasible point, and no descent finds a better one.

mod engineering;
mod synthetic;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use engineering::{pressure_vessel, speed_reducer, tension_spring, welded_beam};
pub use synthetic::{gardner1, gardner2, gramacy};

use super::functions::builders;
use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Every problem that the suite `constrained` compares by: three of two parameters, four of engineering.
pub fn constrained() -> Vec<Box<dyn Problem>> {
    functions().into_iter().map(|function| Box::new(function) as Box<dyn Problem>).collect()
}

fn functions() -> Vec<ConstrainedFunction> {
    vec![gramacy(), gardner1(), gardner2(), tension_spring(), pressure_vessel(), welded_beam(), speed_reducer()]
}

/// A function to be minimised where its constraints hold.
#[derive(Debug, Clone)]
pub struct ConstrainedFunction {
    profile: Profile,
    optimum: f64,
    minimizer: ParameterValues,
    function: fn(&ParameterValues) -> Constrained,
}

/// The value at a point, and each constraint there: at most 0 where it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Constrained {
    /// What is minimised.
    pub value: f64,
    /// At least one.
    pub constraints: Vec<f64>,
}

impl Constrained {
    /// Whether every constraint holds.
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

    /// The smallest feasible value, or the smallest known where the function says so.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// A feasible point with that value, but for 1e-9 of it.
    pub fn minimizer(&self) -> &ParameterValues {
        &self.minimizer
    }

    /// Value and constraints at a point of the space.
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
