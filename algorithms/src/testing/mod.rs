//! For implementers of a [`Designer`](crate::designer::Designer): what every one must pass, and the spaces and histories it meets.
//!
//! Only behind the feature `testing`. Its functions panic with a message that says what is broken, as tests do.

mod contract;
mod history;
mod problems;

pub use contract::designer_contract;
pub use history::{OwnedHistory, awkward_histories};
pub use problems::{
    conditional_problems, every_kind_and_scale, finite_problem, metric, one_point_problem, several_outputs,
};
