//! Problem statement: search space, metrics, constraints, and trials.
//!
//! Storage of studies, ownership of trials and timestamps belong to the service.

mod condition;
mod doubles;
mod fixed;
mod metric;
mod origin;
mod parameter;
pub mod pareto;
mod prior;
mod repeats;
mod search_space;
mod trial;

pub use condition::Condition;
pub(crate) use doubles::Doubles;
pub use fixed::FixedParameters;
pub(crate) use fixed::moved_to_part;
pub use metric::{ConstraintSpec, Goal, MetricSpec, ObservationNoise, ProblemError, ProblemStatement};
pub use origin::{AlgorithmName, Origin, Step};
pub use parameter::{MAX_DISCRETE_VALUES, ParameterKind, ParameterSpec, ParameterSpecError, ParameterValue, ScaleType};
pub use prior::{ParameterPrior, SMALLEST_SPREAD};
pub use repeats::{Repeats, RepeatsError};
pub use search_space::{ParameterValues, SearchSpace, SearchSpaceError, ValueError};
pub use trial::{CompletedTrial, Fidelity, PendingTrial, TrialId, TrialOutcome, TrialSuggestion};
