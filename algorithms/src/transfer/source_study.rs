//! A study whose trials inform another one.

use crate::problem::{CompletedTrial, ProblemStatement};

/// A study that ended, or its state so far, before another study starts.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStudy {
    /// The search space and the metrics of the study.
    pub problem: ProblemStatement,
    /// The completed trials, in any order.
    pub completed: Vec<CompletedTrial>,
}
