//! Violations of the rules of a `TrainingInput`.

use std::fmt::Display;

/// The severity of a [`Violation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The input is rejected.
    Error,
    /// The input is accepted, but is probably a mistake.
    Warning,
}

/// A violated rule and the field that violates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field from the `TrainingInput`, such as `hyperparameters.params[2].minValue`.
    pub field: String,
    /// Whether the input is rejected.
    pub severity: Severity,
    /// What is wrong, with the value.
    pub message: String,
    /// The allowed values.
    pub allowed: String,
    /// A suggested correction, where one can be guessed.
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
