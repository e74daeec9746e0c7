//! Made-up problems with conditional parameters and known optima, all to be minimised.
//!
//! Each is a choice among models that have parameters of their own. Which branch is best shows only once its parameters
//! are good: in most of these problems the branch that is best at the middle of all ranges is not the best one. No
//! optimum lies in the middle of a range. In the tests each function proves its own optimum: it is taken at the stated
//! point, and no descent, in any branch, goes below it.

mod families;
mod pipelines;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

pub use families::{model_families, optimizers_of_networks, surfaces};
pub use pipelines::{layers, pipeline, trees};

use super::functions::TestFunction;
use crate::problem::Problem;

/// Every problem that the suite `conditional` compares by, in the order of its results.
pub fn conditional() -> Vec<Box<dyn Problem>> {
    conditional_functions().into_iter().map(|function| Box::new(function) as Box<dyn Problem>).collect()
}

fn conditional_functions() -> Vec<TestFunction> {
    vec![surfaces(), model_families(), optimizers_of_networks(), layers(), trees(), pipeline()]
}

fn level(level: &str) -> ParameterValue {
    ParameterValue::Categorical(level.to_owned())
}

fn point<const N: usize>(values: [(&str, ParameterValue); N]) -> ParameterValues {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The squared distance of `x` from `best` in units of `width`.
fn miss(x: f64, best: f64, width: f64) -> f64 {
    ((x - best) / width).powi(2)
}
