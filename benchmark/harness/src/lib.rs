//! The offline benchmark: search algorithms, ours and others', on problems whose answers are known.
//!
//! What is compared and how it is judged is the crate `tunesmith-benchmark`; this room adds what needs files, processes
//! and a clock. It knows nothing of jobs, studies or stores: algorithms are called as [`tunesmith_service::policy`] calls them.

mod children;
mod compressed;
mod contestants;
mod environment;
mod folder;
pub mod latency;
pub mod load;
mod objective;
pub mod recorded;
pub mod report;
mod runs;
pub mod suites;
mod tables;

pub use self::children::kill_children;
pub use self::contestants::{ALGORITHMS, AlgorithmError, ContestantSpec, ContestantSpecError, serve};
pub use self::environment::machine;
pub use self::folder::{FolderError, Invocation, ResultsFolder, read_results};
pub use self::objective::{CommandProblem, content_hash};
pub use self::runs::{Comparison, Outcome, Progress};
