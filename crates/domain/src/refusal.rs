//! Refusals of calls, with the codes of `google.rpc`. Each protocol renders them in its own form.

use std::time::Duration;

/// Defines [`Code`] with the numbers and HTTP statuses published for `google.rpc.Code`.
macro_rules! codes {
    ($($code:ident $name:literal $number:literal $http:literal $doc:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $doc] $code,)*
        }

        impl Code {
            pub fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            pub fn number(self) -> i32 {
                match self { $(Self::$code => $number,)* }
            }

            /// Corresponding HTTP status, as in audit records.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$code => $http,)* }
            }

            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$code),)* _ => None }
            }
        }
    };
}

codes! {
    Cancelled "CANCELLED" 1 499 "The caller has cancelled the operation.";
    InvalidArgument "INVALID_ARGUMENT" 3 400 "The request is invalid in any state.";
    DeadlineExceeded "DEADLINE_EXCEEDED" 4 504 "The time limit was exceeded.";
    NotFound "NOT_FOUND" 5 404 "The resource does not exist.";
    AlreadyExists "ALREADY_EXISTS" 6 409 "The resource exists already.";
    PermissionDenied "PERMISSION_DENIED" 7 403 "The caller lacks a permission.";
    ResourceExhausted "RESOURCE_EXHAUSTED" 8 429 "The caller exceeds a limit.";
    FailedPrecondition "FAILED_PRECONDITION" 9 400 "The state does not allow the request.";
    Aborted "ABORTED" 10 409 "A concurrent change was made first; the client may try again.";
    Unimplemented "UNIMPLEMENTED" 12 501 "The method does not exist.";
    Internal "INTERNAL" 13 500 "A failure of the server.";
    Unavailable "UNAVAILABLE" 14 503 "The server is temporarily unable to respond.";
    Unauthenticated "UNAUTHENTICATED" 16 401 "The caller is not authenticated.";
}

/// Maximum number of violations in a refusal, and in a list of findings about a configuration.
pub const MAX_VIOLATIONS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    pub field: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub violations: Vec<FieldViolation>,
    /// Recommended delay before a retry.
    pub retry_after: Option<Duration>,
    /// Machine-readable reason, as in `google.rpc.ErrorInfo`.
    pub reason: Option<&'static str>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), violations: Vec::new(), retry_after: None, reason: None }
    }

    pub fn invalid(field: &str, description: impl Into<String>) -> Self {
        let description = description.into();
        let message = format!("{field}: {description}");
        let violations = vec![FieldViolation { field: field.to_owned(), description }];
        Self { violations, ..Self::new(Code::InvalidArgument, message) }
    }

    /// Refusal of a request with invalid fields; names the first [`MAX_VIOLATIONS`].
    pub fn violations(violations: impl IntoIterator<Item = FieldViolation>) -> Self {
        let mut violations: Vec<FieldViolation> = violations.into_iter().collect();
        let omitted = violations.len().saturating_sub(MAX_VIOLATIONS);
        violations.truncate(MAX_VIOLATIONS);
        if let Some(last) = violations.last_mut().filter(|_| omitted > 0) {
            last.description = with_omitted(&last.description, omitted, "errors");
        }
        let messages = violations.iter().map(|violation| format!("{}: {}", violation.field, violation.description));
        let message = messages.collect::<Vec<_>>().join("; ");
        Self { violations, ..Self::new(Code::InvalidArgument, message) }
    }

    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Refusal of a call that exceeded its time `limit`. `continues`: its handler is still running.
    pub fn timed_out(limit: Duration, continues: bool) -> Self {
        let outcome = if continues { "the request may still take effect" } else { "nothing was changed" };
        Self::new(Code::DeadlineExceeded, format!("no response within {limit:?}; {outcome}"))
    }
}

/// `message`, the last of a list, with the number of omitted entries.
pub fn with_omitted(message: &str, omitted: usize, noun: &str) -> String {
    format!("{message} (and {omitted} more {noun}, which are not shown)")
}
