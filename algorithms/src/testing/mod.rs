//! For implementers of a [`Designer`](crate::designer::Designer): what every one must pass, and problems to solve.
//!
//! Only behind the feature `testing`. Its functions panic with a message that says what is broken, as tests do.

mod contract;
mod functions;
mod history;
mod problems;
mod simulation;

pub use contract::designer_contract;
pub use functions::{TestFunction, ackley, branin, hartmann3, hartmann6, levy, network_recipe, training_recipe};
pub use history::{OwnedHistory, awkward_histories};
pub use problems::{every_kind_and_scale, finite_problem, metric, one_point_problem};
pub use simulation::{best_so_far, simulate};
