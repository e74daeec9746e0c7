//! From the records of runs to a comparison of optimizers.
//!
//! [`compare_optimizers`] sets optimizers side by side; [`compare_records`] an old and a new set of records of the
//! same optimizers. Results are losses: the gap between the best known value and the best so far, or the missing part
//! of the hypervolume. How the numbers look on a page is not decided here.

mod checkpoint;
mod compare;
mod comparison;
mod curves;
mod failures;
mod groups;
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
mod synthetic_fixture;
#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, Partial, Ranking, Standing};
pub use compare::{Change, ChangeRow, compare_records};
pub use comparison::{Comparison, GroupComparison, compare_optimizers};
pub use curves::{Curve, CurveBand, TargetCurve};
pub use failures::FailureSummary;
pub use options::{AnalysisError, AnalysisOptions};
pub use pairwise::{Finding, PairTest};
pub use simulated_time::SimulatedTime;
pub use suggestion_time::SuggestionTime;
