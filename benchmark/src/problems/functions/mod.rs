//! Classic test functions with known optima, all to be minimised.
//!
//! Formulas, ranges and optima are those of Surjanovic and Bingham, Virtual Library of Simulation Experiments, 2013,
//! unless a function names another source. Further digits of optima were computed by Newton's method with 30 digits.
//! Tests check that the stated minimizers attain the optimum, and that no descent goes below it.
//!
//! Where the minimizer is in the middle of the usual range, an algorithm that starts at the centre would find it
//! without search. The range is then shifted, as the function's documentation states.

pub(crate) mod builders;
pub(crate) mod fixed;
mod recipes;
mod scalable;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use fixed::{
    bohachevsky, branin, eggholder, goldstein_price, hartmann3, hartmann6, shekel5, shekel7, shekel10, six_hump_camel,
};
pub use recipes::{moved_training_recipe, network_recipe, training_recipe};
pub use scalable::{ackley, griewank, levy, michalewicz, rastrigin, rosenbrock, styblinski_tang};

use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Problems of the suite `classic`, in report order: functions of fixed dimension, then scalable ones in 2 and 6 or the
/// usual dimensions, then mixed spaces.
pub fn classic() -> Vec<TestFunction> {
    vec![
        branin(),
        six_hump_camel(),
        goldstein_price(),
        bohachevsky(),
        eggholder(),
        hartmann3(),
        shekel5(),
        shekel7(),
        shekel10(),
        hartmann6(),
        levy(2),
        levy(6),
        ackley(2),
        ackley(6),
        michalewicz(2),
        michalewicz(5),
        michalewicz(10),
        styblinski_tang(2),
        styblinski_tang(6),
        rosenbrock(2),
        rosenbrock(6),
        griewank(2),
        griewank(6),
        rastrigin(2),
        rastrigin(6),
        network_recipe(),
        moved_training_recipe(),
    ]
}

/// A function to minimise with a known optimum. Its values convert to an [`Evaluation`].
#[derive(Clone)]
pub struct TestFunction<V = f64> {
    pub(crate) profile: Profile,
    optimum: f64,
    minimizers: Vec<ParameterValues>,
    function: Arc<dyn Fn(&ParameterValues) -> V + Send + Sync>,
}

impl<V> TestFunction<V> {
    pub(crate) fn new(
        name: impl Into<String>,
        parameters: Vec<ParameterSpec>,
        optimum: f64,
        minimizers: Vec<ParameterValues>,
        function: impl Fn(&ParameterValues) -> V + Send + Sync + 'static,
    ) -> Self {
        let statement = builders::statement(parameters, &[Goal::Minimize]);
        let quality = Quality::Value { best_known: Some(optimum) };
        Self { profile: Profile::new(name, statement, quality), optimum, minimizers, function: Arc::new(function) }
    }

    /// Creates a function of doubles x01, x02, ... in a box, given the lower and upper bound of each.
    pub(crate) fn continuous(
        name: impl Into<String>,
        ranges: &[(f64, f64)],
        optimum: f64,
        minimizers: &[Vec<f64>],
        function: impl Fn(&ParameterValues) -> V + Send + Sync + 'static,
    ) -> Self {
        let minimizers = minimizers.iter().map(|x| builders::point_of_doubles(x)).collect();
        Self::new(name, builders::box_of_doubles(ranges), optimum, minimizers, function)
    }

    /// Smallest feasible value, or the smallest known one if documented so; the volume of the front for several
    /// metrics.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// All points with the smallest value, up to rounding, unless documented otherwise. Empty for a function with
    /// several metrics.
    pub fn minimizers(&self) -> &[ParameterValues] {
        &self.minimizers
    }

    pub fn value(&self, point: &ParameterValues) -> V {
        (self.function)(point)
    }
}

impl<V: Into<Evaluation>> Problem for TestFunction<V> {
    /// The usual name, with the number of metrics and dimensions where those vary: `branin`, `levy/d06`,
    /// `dtlz2/m03/d06`.
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        self.value(point).into()
    }
}

impl From<f64> for Evaluation {
    fn from(value: f64) -> Self {
        Self::exact(value)
    }
}
