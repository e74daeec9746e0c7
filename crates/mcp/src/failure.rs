//! Failed calls, as results that tell a model what to change.

use rmcp::model::ErrorData;
use serde::Serialize;
use serde_json::{Value, json};
use tunesmith_client::ClientError;
use tunesmith_config::Diagnostic;
use tunesmith_domain::Refusal;

/// Maximum number of problems in a result.
const MAX_PROBLEMS: usize = 20;

/// A failed call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// Name of a `google.rpc.Code`.
    code: String,
    message: String,
    /// Whether the same call may succeed later.
    retryable: bool,
    request_id: Option<String>,
    problems: Vec<Problem>,
}

/// A field that is not valid.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Problem {
    /// Path of the field.
    pub(crate) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed: Option<String>,
    pub(crate) message: String,
    /// Line in the configuration, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// Column in the configuration, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
}

impl Failure {
    /// Failure with the given code, without a field.
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code: code.to_owned(), message, retryable: false, request_id: None, problems: Vec::new() }
    }

    /// Failure of the argument `field`.
    pub(crate) fn argument(field: &str, message: impl Into<String>, allowed: impl Into<String>) -> Self {
        let message = message.into();
        let problem = Problem {
            field: field.to_owned(),
            allowed: Some(allowed.into()),
            message: message.clone(),
            ..Problem::default()
        };
        Self { problems: vec![problem], ..Self::new("INVALID_ARGUMENT", format!("{field}: {message}")) }
    }

    /// Failure with these problems.
    pub(crate) fn of_problems(message: &str, problems: Vec<Problem>) -> Self {
        Self { problems, ..Self::new("INVALID_ARGUMENT", message) }
    }

    /// Marks that the same call may succeed later.
    pub(crate) fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Failure of a field below `parent`.
    pub(crate) fn within(mut self, parent: &str) -> Self {
        for problem in &mut self.problems {
            problem.field = format!("{parent}.{}", problem.field);
        }
        self
    }

    /// Failure of a configuration.
    pub(crate) fn configuration(diagnostics: &[Diagnostic]) -> Self {
        let text = format!("the configuration has {} problems; tool validate_config checks it", diagnostics.len());
        Self { problems: diagnostics.iter().map(Problem::from).collect(), ..Self::new("INVALID_ARGUMENT", text) }
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// Whether fields are not valid.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Whether the service has too few results, or is in another state.
    pub(crate) fn is_precondition(&self) -> bool {
        self.code == "FAILED_PRECONDITION"
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        if self.problems.is_empty() {
            return vec![Problem { message: self.message, ..Problem::default() }];
        }
        self.problems
    }

    /// Adds the values of the fields that are among `arguments`.
    pub(crate) fn with_values(mut self, arguments: &Value) -> Self {
        for problem in self.problems.iter_mut().filter(|problem| problem.value.is_none()) {
            problem.value = value_at(arguments, &problem.field).filter(|value| value.to_string().len() <= 200).cloned();
        }
        self
    }

    /// The failure as an error of the protocol, for methods other than calls of tools.
    pub(crate) fn into_error(self) -> ErrorData {
        let data = Some(self.to_json());
        match self.code.as_str() {
            "NOT_FOUND" => ErrorData::resource_not_found(self.message, data),
            "INTERNAL" | "UNAVAILABLE" | "DEADLINE_EXCEEDED" => ErrorData::internal_error(self.message, data),
            _ => ErrorData::invalid_params(self.message, data),
        }
    }

    /// Whether the caller lacks a permission.
    pub(crate) fn is_permission_denied(&self) -> bool {
        self.code == "PERMISSION_DENIED"
    }

    /// The failure as structured content.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message, "retryable": self.retryable });
        if let Some(id) = &self.request_id {
            error["request_id"] = json!(id);
        }
        if !self.problems.is_empty() {
            error["problems"] = json!(self.problems.iter().take(MAX_PROBLEMS).collect::<Vec<_>>());
        }
        if self.problems.len() > MAX_PROBLEMS {
            error["omitted_problems"] = json!(self.problems.len() - MAX_PROBLEMS);
        }
        json!({ "error": error })
    }
}

/// Value at a path such as `a.b[0].c`.
fn value_at<'a>(arguments: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return None;
    }
    path.split(['.', '[']).try_fold(arguments, |value, part| match part.strip_suffix(']') {
        Some(index) => value.get(index.parse::<usize>().ok()?),
        None => value.get(part),
    })
}

impl Problem {
    /// Problem of `field` with the rule at the end of `description`.
    fn described(field: String, description: String) -> Self {
        let allowed =
            ["allowed: ", "must be ", "is one of ", "expected one of ", "expected "].iter().find_map(|mark| {
                let (_, allowed) = description.rsplit_once(mark)?;
                Some(allowed.to_owned())
            });
        Self { field, allowed, message: description, ..Self::default() }
    }
}

impl From<&Diagnostic> for Problem {
    fn from(diagnostic: &Diagnostic) -> Self {
        let Diagnostic { line, column, field, message, allowed, help, .. } = diagnostic;
        let message = help.as_ref().map_or_else(|| message.clone(), |help| format!("{message}; {help}"));
        Self {
            field: field.clone(),
            value: None,
            allowed: Some(allowed.clone()).filter(|allowed| !allowed.is_empty()),
            message,
            line: Some(*line),
            column: Some(*column),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let retryable = error.is_transient();
        let text = error.to_string();
        let ClientError::Refused(refusal) = error else {
            return Self { retryable, ..Self::new("UNAVAILABLE", text) };
        };
        let violations = refusal.violations.into_iter();
        let problems = violations.map(|violation| Problem::described(violation.field, violation.description));
        Self {
            code: refusal.code,
            message: refusal.message,
            retryable,
            request_id: refusal.request_id,
            problems: problems.collect(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let violations = refusal.violations.into_iter();
        let problems = violations.map(|violation| Problem::described(violation.field, violation.description));
        let (code, retryable) = (refusal.code.name(), refusal.retry_after.is_some());
        Self { problems: problems.collect(), retryable, ..Self::new(code, refusal.message) }
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for Failure {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = error.path().to_string();
        let text = error.into_inner().to_string();
        // Messages about absent or unknown fields quote their names.
        let quoted = text.split('`').nth(1).filter(|_| text.starts_with("missing") || text.starts_with("unknown"));
        let field = match (path.as_str(), quoted) {
            (".", Some(name)) => name.to_owned(),
            (".", None) => String::new(),
            // The path of an unknown field ends with its name.
            (path, Some(name)) if path.rsplit('.').next() != Some(name) => format!("{path}.{name}"),
            (path, _) => path.to_owned(),
        };
        let problem = Problem::described(field, text);
        let message = format!("{}: {}", problem.field, problem.message);
        Self { problems: vec![problem], ..Self::new("INVALID_ARGUMENT", message) }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        #[expect(dead_code, reason = "only its type matters")]
        trials: Vec<u64>,
    }

    fn problem(arguments: Value) -> Value {
        let error = serde_path_to_error::deserialize::<_, Arguments>(arguments.clone()).unwrap_err();
        Failure::from(error).with_values(&arguments).to_json()["error"]["problems"][0].clone()
    }

    #[test]
    fn problems_name_field_value_and_what_is_allowed() {
        let wrong = problem(json!({"trials": [1, "two"]}));
        assert_eq!(
            (&wrong["field"], &wrong["value"], &wrong["allowed"]),
            (&json!("trials[1]"), &json!("two"), &json!("u64"))
        );
        assert_eq!(problem(json!({}))["field"], "trials");
        let unknown = problem(json!({"trials": [], "trail": 1}));
        assert_eq!(
            (&unknown["field"], &unknown["value"], &unknown["allowed"]),
            (&json!("trail"), &json!(1), &json!("`trials`"))
        );
    }

    #[test]
    fn refusals_keep_code_and_rule() {
        let refusal = Refusal::invalid("filter", "column 9: found DONE; allowed: FAILED, SUCCEEDED");
        let json = Failure::from(refusal).with_values(&json!({"filter": "state = DONE"})).to_json();
        assert_eq!(json["error"]["code"], "INVALID_ARGUMENT");
        assert_eq!(json["error"]["problems"][0]["allowed"], "FAILED, SUCCEEDED");
        assert_eq!(json["error"]["problems"][0]["value"], "state = DONE");
    }
}
