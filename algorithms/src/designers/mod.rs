//! The search algorithms, one per file or folder.
//!
//! | designer | learns | space |
//! | --- | --- | --- |
//! | [`RandomSearch`] | no | any |
//! | [`QuasiRandomSearch`] | no | any |
//! | [`GpBandit`] | yes | any |
//! | [`TreeParzen`] | yes | any |
//! | [`CmaEs`] | yes | no categorical parameters |
//! | [`GridSearch`] | no | any; a double needs an explicit number of points |
//! | [`InitialPoints`] | as the one behind | as the one behind: it proposes the user's own points first |
//!
//! What they promise is the contract in [`crate::designer`]; each runs the whole kit of the module `testing`.

mod cma_es;
mod gp_bandit;
mod grid;
mod initial_points;
mod quasi_random;
mod random;
#[cfg(test)]
mod tests;
mod tpe;
mod used_points;

pub use cma_es::CmaEs;
pub use gp_bandit::{GpBandit, GpBanditOptions, Start};
pub use grid::{GridSearch, MAX_DOUBLE_RESOLUTION};
pub use initial_points::{InitialPoints, completed_point};
pub use quasi_random::QuasiRandomSearch;
pub use random::RandomSearch;
pub use tpe::TreeParzen;
pub use used_points::UsedPoints;
