//! Violations of the rules of a `TrainingInput`.

use std::fmt::Display;

/// How bad a [`Violation`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// The input is accepted, but probably not what was meant.
    Warning,
}

/// A rule that one field of a `TrainingInput` breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field from the `TrainingInput`, such as `hyperparameters.params[2].minValue`.
    pub field: String,
    /// Whether it is refused.
    pub severity: Severity,
    /// What is wrong, naming the value.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
    /// What to write instead, where that can be guessed.
    pub help: Option<String>,
}

/// Collects violations.
#[derive(Default)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    /// The violations in the order in which they were added.
    pub(super) fn into_vec(self) -> Vec<Violation> {
        self.0
    }

    pub(super) fn error(&mut self, field: impl Display, message: impl Display, allowed: impl Display) {
        self.push(Severity::Error, field, message, allowed, None);
    }

    pub(super) fn error_with_help(
        &mut self,
        field: impl Display,
        message: impl Display,
        allowed: impl Display,
        help: Option<String>,
    ) {
        self.push(Severity::Error, field, message, allowed, help);
    }

    pub(super) fn warning(&mut self, field: impl Display, message: impl Display, allowed: impl Display) {
        self.push(Severity::Warning, field, message, allowed, None);
    }

    fn push(
        &mut self,
        severity: Severity,
        field: impl Display,
        message: impl Display,
        allowed: impl Display,
        help: Option<String>,
    ) {
        self.0.push(Violation {
            field: field.to_string(),
            severity,
            message: message.to_string(),
            allowed: allowed.to_string(),
            help,
        });
    }
}
