//! Source studies, whose trials inform another study.

use crate::problem::{CompletedTrial, ProblemStatement};

/// A study that ended, or its state so far, before another study starts.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStudy {
    /// Search space and metrics of the study.
    pub problem: ProblemStatement,
    /// Completed trials, in any order.
    pub completed: Vec<CompletedTrial>,
}
