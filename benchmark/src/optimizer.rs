//! Interface of the compared search algorithms.

use tunesmith_algorithms::problem::{CompletedTrial, ParameterValues, ProblemStatement, TrialId};
use tunesmith_algorithms::transfer::SourceStudy;

/// A search algorithm in a comparison.
///
/// One optimizer runs many studies in sequence: [`Optimizer::create`] ends the previous study and starts the next.
/// [`Optimizer::suggest`] and [`Optimizer::complete`] follow in any order. The id of a completed trial was passed to
/// `suggest` before, or is new if the benchmark chose the point. A trial completes once; only with early stopping whose
/// stopped trials resume does it complete again.
pub trait Optimizer: Send {
    /// Starts a study.
    ///
    /// # Errors
    /// [`OptimizerError`]: the study ends without a result. [`OptimizerError::Unsupported`] is a declaration, not a
    /// failure.
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError>;

    /// Suggests a point for each of `trials`, in order; fewer if the search space is exhausted.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError>;

    /// Adds the result of a trial. If the trial has completed before, it was stopped early and has resumed: the result
    /// replaces the previous one. External optimizers cannot replace results and are not compared with such early stopping.
    ///
    /// # Errors
    /// As [`Optimizer::create`].
    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError>;

    /// Adds a report of a running trial and returns whether to stop the trial, whose last report is then its result.
    /// Called if early stopping is left to the optimizer.
    ///
    /// # Errors
    /// As [`Optimizer::create`]; by default, an optimizer does not support it.
    fn report(&mut self, _report: &TrialReport) -> Result<bool, OptimizerError> {
        Err(OptimizerError::Unsupported { reason: "it has no early stopping of its own".to_owned() })
    }

    /// Version for the record of the last study, if known.
    fn version(&self) -> Option<String> {
        None
    }
}

/// Study as announced to an optimizer.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyRequest {
    pub problem: ProblemStatement,
    /// Seed of the optimizer's random numbers.
    pub seed: u64,
    pub budget: usize,
    /// Number of concurrent trials.
    pub parallel: usize,
    /// Number of constraint values per result.
    pub constraints: usize,
    /// Source studies, oldest first; an optimizer that does not learn from them ignores them.
    pub sources: Vec<SourceStudy>,
}

/// Report of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialReport {
    pub trial: TrialId,
    /// Step of the report, from 1.
    pub step: u64,
    /// The first metric at this step.
    pub value: f64,
}

/// Trial result as seen by an optimizer.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// Infeasible if it has no values or violates a constraint.
    pub trial: CompletedTrial,
    /// Metrics, also of a trial that violates a constraint; `None` without values.
    pub values: Option<Vec<f64>>,
    /// Empty if the problem has no constraints or the trial no values.
    pub constraints: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizerError {
    #[error("does not support this problem: {reason}")]
    Unsupported { reason: String },
    /// The optimizer failed. The next study can start.
    #[error("{reason}")]
    Failed { reason: String },
}
