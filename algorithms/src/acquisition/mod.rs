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
pub use function::{AcquisitionFunction, AcquisitionValue, FANTASY_SAMPLES};
pub use interface::{Acquisition, Screening};
pub use region::{Axis, Region};
pub use search::{Candidates, Search, screen};
pub use trust_region::{TrialResult, TrustRegion};
