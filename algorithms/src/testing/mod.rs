//! A test kit for implementers of a [`Designer`](crate::designer::Designer): the contract, and spaces and histories for
//! it.
//!
//! Only with the feature `testing`. Its functions panic with a message that names the violation, as tests do.

mod contract;
mod history;
mod problems;

pub use contract::designer_contract;
pub use history::{OwnedHistory, awkward_histories};
pub use problems::{
    conditional_problems, every_kind_and_scale, finite_problem, metric, one_point_problem, several_outputs,
};
