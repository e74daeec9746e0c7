//! A study whose trials inform another one.

use crate::problem::{CompletedTrial, ProblemStatement};

/// A study that ended, or is known as far as it has come, before another one begins.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierStudy {
    /// What it searched, and for what.
    pub problem: ProblemStatement,
    /// Its completed trials, in any order.
    pub completed: Vec<CompletedTrial>,
}
