//! Trials as a search algorithm sees them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Origin, ParameterValues};

/// The number of a trial in its study, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub u64);

impl TrialId {
    /// The first trial of every study.
    pub const FIRST: Self = Self(1);

    /// The id `count` places after this one.
    pub fn offset(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point that an algorithm proposes to try.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSuggestion {
    /// One value for each parameter of the space that is active.
    pub parameters: ParameterValues,
    /// What proposes it.
    pub origin: Origin,
}

/// A trial that was given out and has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingTrial {
    /// Its number.
    pub id: TrialId,
    /// Its point.
    pub parameters: ParameterValues,
}

/// A trial whose result is final.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTrial {
    /// Its number.
    pub id: TrialId,
    /// Its point.
    pub parameters: ParameterValues,
    /// What came of it.
    pub outcome: TrialOutcome,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialOutcome {
    /// It reported a finite value for each metric and each constraint, in the user's own sign. It may violate
    /// constraints.
    Measured {
        /// One value per metric, in the order of the problem's metrics, then one per constraint, in their order.
        values: Vec<f64>,
        /// It was stopped before its end: the values are those of its last report.
        stopped_early: bool,
    },
    /// It gave no usable value: the program failed, or a metric or constraint was missing or not finite. Not to be
    /// tried again.
    Infeasible,
}
