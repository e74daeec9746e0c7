//! Synthetic minimisation problems with conditional parameters and known optima.
//!
//! Each problem is a choice among models with parameters of their own. In most of these problems the best branch at the
//! middle of all ranges is not the optimal one, so its parameters must be tuned before it shows. No minimizer is in the
//! middle of a range. Tests check each optimum: the stated minimizer has it, and no descent in any branch goes below
//! it.

mod families;
mod pipelines;
#[cfg(test)]
mod tests;

use tunesmith_algorithms::problem::{ParameterValue, ParameterValues};

pub use families::{model_families, optimizers_of_networks, surfaces};
pub use pipelines::{layers, pipeline, trees};

use super::functions::TestFunction;
use crate::problem::Problem;

/// Returns the problems of the suite `conditional`, in the order of its results.
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
