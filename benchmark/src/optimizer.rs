//! The interface of the search algorithms that are compared.

use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, ProblemStatement, TrialId};

/// A search algorithm in a comparison.
///
/// One optimizer runs many studies in sequence: [`Optimizer::create`] starts the next study and ends the previous one.
/// Calls of [`Optimizer::suggest`] and [`Optimizer::complete`] follow in any order. A trial is completed at most once.
/// Its id was passed to `suggest` before, or is new if the benchmark chose the point.
pub trait Optimizer: Send {
    /// Starts a study.
    ///
    /// # Errors
    /// [`OptimizerError`]: the study has no result. [`OptimizerError::Unsupported`] is a declaration, not a failure.
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError>;

    /// Returns a point for each of `trials`, in their order; fewer if the search space is exhausted.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError>;

    /// Adds the result of a trial.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError>;
}

/// The properties of a study that an optimizer receives at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyRequest {
    /// The space and the metrics.
    pub problem: ProblemStatement,
    /// Seed of the optimizer's random numbers.
    pub seed: u64,
    /// Total number of trials.
    pub budget: usize,
    /// Number of trials that run at once.
    pub parallel: usize,
    /// Number of constraint values of each result.
    pub constraints: usize,
}

/// The result of a trial as an optimizer receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// The trial; infeasible if it has no values or violates a constraint.
    pub trial: CompletedTrial,
    /// The metrics, also of a trial that violates a constraint; `None` if the trial has no values.
    pub values: Option<Vec<f64>>,
    /// The constraints; empty if the problem has none or the trial has no values.
    pub constraints: Vec<f64>,
}

/// An error of an optimizer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// The optimizer cannot search this kind of problem.
    #[error("does not support this problem: {reason}")]
    Unsupported {
        /// The missing feature.
        reason: String,
    },
    /// The optimizer failed. The next study can start.
    #[error("{reason}")]
    Failed {
        /// The cause.
        reason: String,
    },
}
