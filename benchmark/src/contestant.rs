//! The interface of what is compared: a search algorithm, ours or another's.

use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, ProblemStatement, TrialId};

/// A search algorithm that takes part in a comparison.
///
/// One contestant runs many studies, one after the other: [`Contestant::create`] begins the next and ends the former.
/// Between, calls of [`Contestant::suggest`] and [`Contestant::complete`] alternate in any pattern; a trial is completed
/// at most once, and its id is one that was asked for or, with points that the benchmark itself chose, a new one.
pub trait Contestant: Send {
    /// Begins a study.
    ///
    /// # Errors
    /// [`ContestantError`]: the study has no result. [`ContestantError::Unsupported`] is a declaration, not a failure.
    fn create(&mut self, study: &StudyRequest) -> Result<(), ContestantError>;

    /// A point for each of `trials`, in their order; fewer mean that the search space is exhausted.
    ///
    /// # Errors
    /// As [`Contestant::create`].
    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, ContestantError>;

    /// Takes the result of a trial.
    ///
    /// # Errors
    /// As [`Contestant::create`].
    fn complete(&mut self, result: &TrialResult) -> Result<(), ContestantError>;
}

/// What a contestant is told when a study begins.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyRequest {
    /// The space and the metrics.
    pub problem: ProblemStatement,
    /// Seed of the contestant's random numbers.
    pub seed: u64,
    /// How many trials there will be in all.
    pub budget: usize,
    /// How many trials run at once.
    pub parallel: usize,
    /// How many constraint values come with each result.
    pub constraints: usize,
}

/// The result of a trial as a contestant is told it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// The trial; infeasible also if a constraint is violated.
    pub trial: CompletedTrial,
    /// The metrics even of a trial that violates a constraint; `None` if there are none.
    pub values: Option<Vec<f64>>,
    /// The constraints; empty if the problem has none or the trial gave no values.
    pub constraints: Vec<f64>,
}

/// Why a contestant gives no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContestantError {
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
