//! Acquisition functions and the search for their maximum.

mod branches;
mod candidates;
mod constrained;
mod criterion;
mod function;
pub mod hypervolume;
mod interface;
pub mod log_expected_improvement;
mod maximize;
mod pooled;
mod prior_candidates;
mod prior_weighted;
mod refine;
mod region;
mod search;
#[cfg(test)]
mod tests;
mod trust_region;

pub use constrained::{BoundedOutcome, Constrained};
pub use criterion::{Criterion, DEFAULT_BETA};
pub use function::{AcquisitionFunction, FANTASY_SAMPLES};
pub use interface::{Acquisition, AcquisitionValue, Screening};
pub use maximize::{Candidates, screen};
pub use prior_weighted::PriorWeighted;
pub use region::{Axis, Region};
pub use search::{Search, maximum_of_space};
pub use trust_region::{TrialResult, TrustRegion};
