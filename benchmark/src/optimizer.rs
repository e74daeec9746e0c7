//! The interface of what is compared: a search algorithm, ours or another's.

use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, ProblemStatement, TrialId};

/// A search algorithm that takes part in a comparison.
///
/// One optimizer runs many studies, one after the other: [`Optimizer::create`] begins the next and ends the former.
/// Between, calls of [`Optimizer::suggest`] and [`Optimizer::complete`] alternate in any pattern; a trial is completed
/// at most once, and its id is one that was asked for or, with points that the benchmark itself chose, a new one.
pub trait Optimizer: Send {
    /// Begins a study.
    ///
    /// # Errors
    /// [`OptimizerError`]: the study has no result. [`OptimizerError::Unsupported`] is a declaration, not a failure.
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError>;

    /// A point for each of `trials`, in their order; fewer mean that the search space is exhausted.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError>;

    /// Takes the result of a trial.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError>;
}

/// What an optimizer is told when a study begins.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyRequest {
    /// The space and the metrics.
    pub problem: ProblemStatement,
    /// Seed of the optimizer's random numbers.
    pub seed: u64,
    /// How many trials there will be in all.
    pub budget: usize,
    /// How many trials run at once.
    pub parallel: usize,
    /// How many constraint values come with each result.
    pub constraints: usize,
}

/// The result of a trial as an optimizer is told it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// The trial; infeasible also if a constraint is violated.
    pub trial: CompletedTrial,
    /// The metrics even of a trial that violates a constraint; `None` if there are none.
    pub values: Option<Vec<f64>>,
    /// The constraints; empty if the problem has none or the trial gave no values.
    pub constraints: Vec<f64>,
}

/// Why an optimizer gives no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// It cannot search this kind of problem: it does not take part.
    #[error("does not support this problem: {reason}")]
    Unsupported {
        /// What it lacks.
        reason: String,
    },
    /// It failed; the next study may begin.
    #[error("{reason}")]
    Failed {
        /// What happened.
        reason: String,
    },
}
