//! Synthetic minimisation problems with conditional parameters and known optima.
//!
//! Each problem is a choice among models with their own parameters. In most of them the best branch at the middle of
//! all ranges is not the optimal one, so a branch must be tuned before it shows. No minimizer is in the middle of a
//! range. Tests check that the stated minimizer attains the optimum, and that no descent in any branch goes below it.

mod families;
mod pipelines;
#[cfg(test)]
mod tests;

pub use families::{model_families, optimizers_of_networks, surfaces};
pub use pipelines::{layers, pipeline, trees};

use super::functions::TestFunction;

/// Problems of the suite `conditional`, in report order.
pub fn conditional() -> Vec<TestFunction> {
    vec![surfaces(), model_families(), optimizers_of_networks(), layers(), trees(), pipeline()]
}

/// Squared distance of `x` from `best` in units of `width`.
fn miss(x: f64, best: f64, width: f64) -> f64 {
    ((x - best) / width).powi(2)
}
