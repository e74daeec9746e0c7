//! Analysis of run records.
//!
//! [`compare_optimizers`] compares optimizers; [`compare_records`] compares an old and a new set of records of the same
//! optimizers. Results are losses: the gap between the best known value and the best so far, or the missing part of the
//! hypervolume.

mod checkpoint;
mod compare;
mod comparison;
mod curves;
mod failures;
mod groups;
mod handed_out;
mod label;
mod log_gap;
mod loss;
mod options;
mod pairwise;
mod runs;
mod significance;
mod simulated_time;
mod suggestion_time;

#[cfg(test)]
#[path = "tests/synthetic_fixture.rs"]
mod synthetic_fixture;
#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, Partial, Ranking, Standing};
pub use compare::{Change, ChangeRow, compare_records};
pub use comparison::{Comparison, GroupComparison, compare_optimizers};
pub use curves::{Curve, CurveBand, TargetCurve};
pub use failures::FailureSummary;
pub use handed_out::HandedOut;
pub use options::{AnalysisError, AnalysisOptions};
pub use pairwise::{DifferenceTest, PairTest};
pub use simulated_time::{SimulatedTime, TIME_SHARES};
pub use suggestion_time::SuggestionTime;
pub use tunesmith_statistics::decision::Decision;
