//! The search algorithms, one per file or folder.
//!
//! | designer | learns | space | several metrics, constraints |
//! | --- | --- | --- | --- |
//! | [`Automatic`] | yes | any; selects one of the algorithms below | yes |
//! | [`RandomSearch`] | no | any | ignored |
//! | [`QuasiRandomSearch`] | no | any | ignored |
//! | [`GpBandit`] | yes | any | yes |
//! | [`TreeParzen`] | yes | any | no |
//! | [`CmaEs`] | yes | no categorical parameters | no |
//! | [`GridSearch`] | no | any; a double needs an explicit number of points | ignored |
//! | [`InitialPoints`] | as the wrapped designer | as the wrapped designer; proposes the user-supplied points first |
//! as the wrapped designer |
//!
//! [Priors](crate::prior) guide `Automatic`, `GpBandit`, `TreeParzen` and `RandomSearch`. [Source
//! studies](crate::transfer) guide `Automatic` and `GpBandit`, for one metric.
//!
//! Those that do not learn are [`PointDesigner`](crate::designer::PointDesigner)s: they use the points of a history only.
//!
//! All designers implement the contract of [`crate::designer`] and pass the whole kit of the module `testing`.

mod automatic;
mod cma_es;
#[cfg(test)]
mod few_doubles_tests;
mod gp_bandit;
mod grid;
mod initial_points;
mod point_search;
mod quasi_random;
mod random;
#[cfg(test)]
mod robustness_tests;
#[cfg(test)]
mod tests;
mod tpe;
mod used_points;

pub use automatic::{AlgorithmChoice, Automatic, LONG_RUN, choose_algorithm};
pub use cma_es::CmaEs;
pub use gp_bandit::{GpBandit, GpBanditOptions, InitialDesign};
pub use grid::{GridSearch, MAX_DOUBLE_RESOLUTION};
pub use initial_points::{InitialPoints, completed_point};
pub use quasi_random::QuasiRandomSearch;
pub use random::RandomSearch;
pub use tpe::TreeParzen;
pub use used_points::{NumberedPoints, UsedPoints};
