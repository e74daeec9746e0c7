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
//! | [`Repeating`] | yes | as the wrapped designer; repeats the best points with other seeds or folds | constraints, as the wrapped designer |
//! | [`InitialPoints`] | as the wrapped designer | as the wrapped designer; proposes the user-supplied points first | as the wrapped designer |
//!
//! [`Algorithm`] creates them.
//!
//! [`suggest_with_fixed`] asks any of them for points with some values fixed.
//!
//! [Priors](crate::prior) guide `Automatic`, `GpBandit`, `TreeParzen` and `RandomSearch`. [Source
//! studies](crate::transfer) guide `Automatic` and `GpBandit`, for one metric.
//!
//! Those that do not learn are [`PointDesigner`](crate::designer::PointDesigner)s: they use the points of a history only.
//!
//! All designers implement the contract of [`crate::designer`] and pass the whole contract kit in `algorithms/tests/contract`.

mod algorithm;
mod automatic;
mod cma_es;
mod fixed;
mod gp_bandit;
mod grid;
mod initial_points;
mod point_search;
mod quasi_random;
mod random;
mod repeating;
#[cfg(test)]
mod tests;
mod tpe;
mod used_points;

pub use algorithm::Algorithm;
pub use automatic::{AlgorithmChoice, Automatic, LONG_RUN, choose_algorithm};
pub use cma_es::CmaEs;
pub use fixed::suggest_with_fixed;
pub use gp_bandit::GpBandit;
pub use grid::{GridSearch, MAX_DOUBLE_RESOLUTION};
pub use initial_points::{InitialPoints, completed_point};
pub use quasi_random::QuasiRandomSearch;
pub use random::RandomSearch;
pub use repeating::Repeating;
pub use tpe::TreeParzen;
pub use used_points::{NumberedPoints, UsedPoints};

use crate::designer::DesignerError;
use crate::problem::{Goal, ProblemStatement};

/// Goal of the only metric, for an algorithm without support for several metrics or constraints.
fn only_goal(problem: &ProblemStatement, algorithm: &'static str) -> Result<Goal, DesignerError> {
    let unsupported = |reason: String| Err(DesignerError::Unsupported { algorithm, reason });
    match (problem.metrics(), problem.constraints()) {
        ([metric], []) => Ok(metric.goal),
        ([_], [constraint, ..]) => unsupported(format!("constraint {:?} is not supported", constraint.name)),
        (metrics, _) => unsupported(format!("it optimises one metric, not {}", metrics.len())),
    }
}
