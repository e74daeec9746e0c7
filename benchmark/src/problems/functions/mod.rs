//! Classic test functions with known optima, all to be minimised.
//!
//! Formulas, ranges and optima are those of Surjanovic and Bingham, Virtual Library of Simulation Experiments, 2013,
//! unless a function names another source. Further digits of optima were computed by Newton's method with 30 digits.
//! Tests check each optimum: the stated minimizers have it, and no descent goes below it.
//!
//! Where the usual range has the minimizer in the middle of a parameter, an algorithm that starts at the centre would
//! find it without search. The range is then shifted; the function's documentation states so.

pub(crate) mod builders;
pub(crate) mod fixed;
mod recipes;
mod scalable;
mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tunesmith_algorithms::problem::{Goal, ParameterSpec, ParameterValues};

pub use fixed::{
    bohachevsky, branin, eggholder, goldstein_price, hartmann3, hartmann6, shekel5, shekel7, shekel10, six_hump_camel,
};
pub use recipes::{moved_training_recipe, network_recipe, training_recipe};
pub use scalable::{ackley, griewank, levy, michalewicz, rastrigin, rosenbrock, styblinski_tang};
pub use simulation::{best_so_far, simulate};

use crate::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// Returns the problems of the suite `classic`, in the order of its results: functions of fixed dimension, then those
/// of any dimension in 2 and 6 or the usual dimensions, then the mixed spaces.
pub fn classic() -> Vec<Box<dyn Problem>> {
    classic_functions().into_iter().map(|function| Box::new(function) as Box<dyn Problem>).collect()
}

fn classic_functions() -> Vec<TestFunction> {
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

/// The value at a point.
type Function = Arc<dyn Fn(&ParameterValues) -> f64 + Send + Sync>;

/// A function to be minimised with a known optimum.
#[derive(Clone)]
pub struct TestFunction {
    profile: Profile,
    optimum: f64,
    minimizers: Vec<ParameterValues>,
    function: Function,
}

impl TestFunction {
    pub(crate) fn new(
        name: impl Into<String>,
        parameters: Vec<ParameterSpec>,
        optimum: f64,
        minimizers: Vec<ParameterValues>,
        function: impl Fn(&ParameterValues) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let statement = builders::statement(parameters, &[Goal::Minimize]);
        let quality = Quality::Value { best_known: Some(optimum) };
        Self { profile: Profile::new(name, statement, quality), optimum, minimizers, function: Arc::new(function) }
    }

    /// Creates a function of doubles x01, x02, ... in a box, given the lower and upper bound of each.
    fn continuous(
        name: impl Into<String>,
        ranges: &[(f64, f64)],
        optimum: f64,
        minimizers: &[Vec<f64>],
        function: impl Fn(&ParameterValues) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let minimizers = minimizers.iter().map(|x| builders::point_of_doubles(x)).collect();
        Self::new(name, builders::box_of_doubles(ranges), optimum, minimizers, function)
    }

    /// The smallest value.
    pub fn optimum(&self) -> f64 {
        self.optimum
    }

    /// The points with the smallest value; all of them, unless the function's documentation states otherwise.
    pub fn minimizers(&self) -> &[ParameterValues] {
        &self.minimizers
    }

    /// Returns the value at a point of the space.
    pub fn value(&self, point: &ParameterValues) -> f64 {
        (self.function)(point)
    }
}

impl Problem for TestFunction {
    /// The usual name, with the number of dimensions where that varies: `branin`, `levy/d06`.
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _draw: Draw) -> Evaluation {
        Evaluation::exact(self.value(point))
    }
}
