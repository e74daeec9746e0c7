//! What makes a point worth trying, and the search for the best one.

mod believed;
mod believed_candidates;
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
mod refine;
mod region;
mod search;
#[cfg(test)]
mod tests;
mod trust_region;

pub use believed::Believed;
pub use constrained::{BoundedOutcome, Constrained};
pub use criterion::{Criterion, DEFAULT_BETA};
pub use function::{AcquisitionFunction, FANTASY_SAMPLES};
pub use interface::{Acquisition, AcquisitionValue, Screening};
pub use maximize::{Candidates, screen};
pub use region::{Axis, Region};
pub use search::Search;
pub use trust_region::{TrialResult, TrustRegion};
