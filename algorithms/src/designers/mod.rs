//! The search algorithms, one per file or folder.
//!
//! | designer | learns | space |
//! | --- | --- | --- |
//! | [`Automatic`] | yes | any; chooses among those below |
//! | [`RandomSearch`] | no | any |
//! | [`QuasiRandomSearch`] | no | any |
//! | [`GpBandit`] | yes | any |
//! | [`TreeParzen`] | yes | any |
//! | [`CmaEs`] | yes | no categorical parameters |
//! | [`GridSearch`] | no | any; a double needs an explicit number of points |
//!
//! What they promise is the contract in [`crate::designer`]; each runs the whole kit of the module `testing`.

mod automatic;
mod cma_es;
mod gp_bandit;
mod grid;
mod quasi_random;
mod random;
#[cfg(test)]
mod tests;
mod tpe;
mod used_points;

pub use automatic::{AlgorithmChoice, Automatic, LONG_RUN, choose_algorithm};
pub use cma_es::CmaEs;
pub use gp_bandit::{GpBandit, GpBanditOptions, Start};
pub use grid::{GridSearch, MAX_DOUBLE_RESOLUTION};
pub use quasi_random::QuasiRandomSearch;
pub use random::RandomSearch;
pub use tpe::TreeParzen;
pub use used_points::UsedPoints;
