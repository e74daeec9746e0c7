//! Violations of the rules of a `TrainingInput`.

use std::fmt::Display;

use tunesmith_domain::{MAX_VIOLATIONS, with_omitted};

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
    /// The absent field that is required here. It may be this field.
    pub missing: Option<String>,
}

/// Collects violations.
#[derive(Default)]
pub(super) struct Violations {
    kept: Vec<Violation>,
    /// The numbers of errors and warnings, also of those that were not kept.
    errors: usize,
    warnings: usize,
}

impl Violations {
    /// The first [`MAX_VIOLATIONS`] errors and warnings, in the order in which they were added. The last of each names the number of
    /// those that follow.
    pub(super) fn into_vec(self) -> Vec<Violation> {
        let Self { mut kept, errors, warnings } = self;
        for (severity, count, noun) in [(Severity::Error, errors, "errors"), (Severity::Warning, warnings, "warnings")]
        {
            let last = kept.iter_mut().rfind(|violation| violation.severity == severity);
            if let Some(last) = last.filter(|_| count > MAX_VIOLATIONS) {
                last.message = with_omitted(&last.message, count - MAX_VIOLATIONS, noun);
            }
        }
        kept
    }

    /// Whether further errors are only counted, so that nothing is to be looked up for them.
    pub(super) fn are_full(&self) -> bool {
        self.errors >= MAX_VIOLATIONS
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

    /// An error because the field `missing` is absent.
    pub(super) fn missing(
        &mut self,
        field: impl Display,
        missing: impl Display,
        message: impl Display,
        allowed: impl Display,
    ) {
        let before = self.kept.len();
        self.push(Severity::Error, field, message, allowed, None);
        if let Some(violation) = self.kept.get_mut(before) {
            violation.missing = Some(missing.to_string());
        }
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
        let count = if severity == Severity::Error { &mut self.errors } else { &mut self.warnings };
        *count += 1;
        if *count > MAX_VIOLATIONS {
            return;
        }
        self.kept.push(Violation {
            field: field.to_string(),
            severity,
            message: message.to_string(),
            allowed: allowed.to_string(),
            help,
            missing: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_up_to_a_limit_and_warnings_do_not_displace_them() {
        let mut violations = Violations::default();
        for index in 0..1000 {
            violations.warning(format!("w{index}"), "odd", "");
        }
        for index in 0..MAX_VIOLATIONS {
            violations.error(format!("e{index}"), "wrong", "");
        }
        violations.error("last", "wrong", "");
        let kept = violations.into_vec();
        assert_eq!(kept.len(), 2 * MAX_VIOLATIONS);
        assert_eq!(kept[98].message, "odd");
        assert_eq!(kept[99].message, "odd (and 900 more warnings, which are not shown)");
        let last = kept.last().unwrap();
        assert_eq!((last.field.as_str(), last.severity), ("e99", Severity::Error));
        assert_eq!(last.message, "wrong (and 1 more errors, which are not shown)");
    }
}
