//! Trials as input and output of search algorithms.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Origin, ParameterValues};

/// Number of a trial in its study, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub u64);

impl TrialId {
    /// First trial of a study.
    pub const FIRST: Self = Self(1);

    /// Id `count` after this one.
    pub fn offset(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Point proposed by an algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSuggestion {
    /// One value for each active parameter.
    pub parameters: ParameterValues,
    /// Algorithm and step that proposed it.
    pub origin: Origin,
}

/// Assigned trial without a final result.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingTrial {
    /// Number of the trial.
    pub id: TrialId,
    /// Point of the trial.
    pub parameters: ParameterValues,
}

/// Trial with a final result.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTrial {
    /// Number of the trial.
    pub id: TrialId,
    /// Point of the trial.
    pub parameters: ParameterValues,
    /// Result of the trial.
    pub outcome: TrialOutcome,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialOutcome {
    /// The trial reported a finite value for each metric and each constraint, in the units and orientation of the user.
    /// Constraints may be violated.
    Measured {
        /// One value per metric, in the problem's order, then one per constraint, likewise.
        values: Vec<f64>,
        /// Relation of the values to those at the end of the trial.
        fidelity: Fidelity,
    },
    /// The trial has no usable value: the program failed, or a metric or constraint was missing or not finite. The
    /// point must not be tried again.
    Infeasible,
}

impl TrialOutcome {
    /// Result of a trial that ran to its end.
    pub fn measured(values: Vec<f64>) -> Self {
        Self::Measured { values, fidelity: Fidelity::Full }
    }
}

/// Relation of the values of a trial to those at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fidelity {
    /// The trial ran to its end.
    Full,
    /// The trial was stopped early, and the values are those of its last report.
    Partial,
    /// The trial was stopped early by a rule that predicts the objective, which is the first value.
    Predicted {
        /// Standard deviation of the final value, in units of the objective: finite, at least 0.
        deviation: f64,
    },
}

impl Fidelity {
    /// Whether the trial ran to its end.
    pub fn is_full(self) -> bool {
        self == Self::Full
    }
}
