//! Problems with two and three metrics and known Pareto fronts.
//!
//! Each function documents the volume of its front within its reference point and the computation. Tests sample the
//! Pareto set with increasing density and check that the sampled volume approaches the stated one from below.
//!
//! Ranges with Pareto-optimal points in the middle are shifted, as the function's documentation states.

mod dtlz;
mod mixed;
#[cfg(test)]
mod tests;
mod three_objectives;
mod zdt;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use dtlz::{dtlz1, dtlz2, dtlz7};
pub use mixed::{branin_currin, network_trade_off};
pub use three_objectives::three_objectives;
pub use zdt::{zdt1, zdt2, zdt3, zdt4, zdt6};

use super::functions::{TestFunction, builders};
use crate::problem::{Evaluation, Quality};

/// Problems of the suite `multi_objective`: Branin-Currin; ZDT in 6 parameters (ZDT4 in 4, for its many local fronts);
/// DTLZ with 2 and 3 metrics and 4 distance parameters; a mixed space.
pub fn multi_objective() -> Vec<MultiObjectiveFunction> {
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

/// Number of metrics of a DTLZ problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricCount {
    Two = 2,
    Three = 3,
}

pub type MultiObjectiveFunction = TestFunction<Vec<f64>>;

impl From<Vec<f64>> for Evaluation {
    fn from(values: Vec<f64>) -> Self {
        Self::measured(values.clone(), values, Vec::new())
    }
}

/// Creates a function. `reference_point` has the shape of `goals`; `volume` is that of the front within it.
fn function(
    name: impl Into<String>,
    parameters: Vec<ParameterSpec>,
    goals: &[Goal],
    reference_point: Vec<f64>,
    volume: f64,
    function: impl Fn(&ParameterValues) -> Vec<f64> + Send + Sync + 'static,
) -> MultiObjectiveFunction {
    let mut created = TestFunction::new(name, parameters.clone(), volume, Vec::new(), function);
    created.profile.statement = builders::statement(parameters, goals);
    created.profile.quality = Quality::Hypervolume { reference_point, best_known: Some(volume) };
    created
}
