//! Solvers that argmin does not have, on its traits.

mod projected_lbfgs;

pub use projected_lbfgs::{Evaluation, Objective, ProjectedLbfgs, minimize};
