//! Problems with two and three metrics and known Pareto fronts.
//!
//! Each function documents the volume of its front within its reference point and its computation. Tests sample the
//! Pareto set with increasing density and check that the sampled volume approaches the stated one from below.
//!
//! Where the usual range has Pareto-optimal points in the middle of a parameter, the range is shifted; the function's
//! documentation states so.

mod dtlz;
mod mixed;
#[cfg(test)]
mod tests;
mod zdt;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use dtlz::{dtlz1, dtlz2, dtlz7};
pub use mixed::{branin_currin, network_trade_off};
pub use zdt::{zdt1, zdt2, zdt3, zdt4, zdt6};

use super::functions::builders;
use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Returns the problems of the suite `multi_objective`: Branin-Currin; ZDT in 6 parameters (ZDT4 in 4, for its many
/// local fronts); DTLZ with 2 and 3 metrics and 4 distance parameters; a mixed space.
pub fn multi_objective() -> Vec<Box<dyn Problem>> {
    functions().into_iter().map(|function| Box::new(function) as Box<dyn Problem>).collect()
}

fn functions() -> Vec<MultiObjectiveFunction> {
    let two = MetricCount::Two;
    let three = MetricCount::Three;
    vec![
        branin_currin(),
        zdt1(6),
        zdt2(6),
        zdt3(6),
        zdt4(4),
        zdt6(6),
        dtlz1(two, 5),
        dtlz1(three, 6),
        dtlz2(two, 5),
        dtlz2(three, 6),
        dtlz7(two, 5),
        dtlz7(three, 6),
        network_trade_off(),
    ]
}

/// Number of metrics of a problem of the DTLZ family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricCount {
    /// Two.
    Two,
    /// Three.
    Three,
}

impl MetricCount {
    fn count(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// A function with several values and a known Pareto front.
#[derive(Debug, Clone)]
pub struct MultiObjectiveFunction {
    profile: Profile,
    function: fn(&ParameterValues) -> Vec<f64>,
}

impl MultiObjectiveFunction {
    /// `reference_point` has the shape of `goals`; `volume` is that of the front within it.
    fn new(
        name: impl Into<String>,
        parameters: Vec<ParameterSpec>,
        goals: &[Goal],
        reference_point: Vec<f64>,
        volume: f64,
        function: fn(&ParameterValues) -> Vec<f64>,
    ) -> Self {
        let statement = builders::statement(parameters, goals);
        let quality = Quality::Hypervolume { reference_point, best_known: Some(volume) };
        Self { profile: Profile::new(name, statement, quality), function }
    }

    /// Returns the values at a point of the space, one per metric.
    pub fn values(&self, point: &ParameterValues) -> Vec<f64> {
        (self.function)(point)
    }
}

impl Problem for MultiObjectiveFunction {
    /// The usual name, with the number of metrics and of parameters where those vary: `zdt1/d06`, `dtlz2/m03/d06`.
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        let values = self.values(point);
        Evaluation::measured(values.clone(), values, Vec::new())
    }
}
