#![doc = include_str!("../README.md")]

mod children;
mod compressed;
mod environment;
mod folder;
mod measured_tables;
mod objective;
mod optimizers;
pub mod recorded;
pub mod report;
mod runs;
pub mod suites;
mod tables;

pub use self::children::kill_children;
pub use self::environment::machine;
pub use self::folder::{FolderError, Invocation, ResultsFolder, read_results};
pub use self::measured_tables::MeasuredTablesError;
pub use self::objective::{CommandProblem, content_hash};
pub use self::optimizers::{ALGORITHMS, AlgorithmError, External, OptimizerSpec, OptimizerSpecError, serve};
pub use self::runs::{Comparison, ComparisonOutcome, Progress};
