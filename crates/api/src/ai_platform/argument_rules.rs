//! Rules for program arguments: the operating system rejects some texts, and argument parsers some names.

use std::fmt::Display;

use super::violations::Violations;
use super::{Additions, ParameterSpec, TrainingInput};

/// Beginning of a placeholder in an argument that stands for the value of a parameter: `{parameters.NAME}`.
const PLACEHOLDER: &str = "{parameters.";

/// Maximum number of environment variables.
const MAX_VARIABLES: usize = 100;

/// Beginnings of names of variables that the service sets.
const RESERVED_PREFIXES: [&str; 3] = ["AIP_", "CLOUD_ML_", "TUNESMITH_"];

/// Names of variables that the service sets.
const RESERVED: [&str; 2] = ["CLUSTER_SPEC", "TF_CONFIG"];

/// Maximum argument size on Linux in bytes, without the terminating NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

pub(super) fn check_arguments(input: &TrainingInput, violations: &mut Violations) {
    let configs = [
        ("masterConfig", &input.master_config),
        ("workerConfig", &input.worker_config),
        ("parameterServerConfig", &input.parameter_server_config),
        ("evaluatorConfig", &input.evaluator_config),
    ];
    let mut lists = vec![("args".to_owned(), &input.args)];
    for (name, config) in configs {
        let Some(config) = config else { continue };
        lists.push((format!("{name}.containerCommand"), &config.container_command));
        lists.push((format!("{name}.containerArgs"), &config.container_args));
    }
    for (field, arguments) in lists {
        for (index, argument) in arguments.iter().enumerate() {
            let place = format!("{field}[{index}]");
            check_argument(&place, argument, 0, violations);
            check_placeholders(&place, argument, input, violations);
        }
    }
    check_argument("pythonModule", &input.python_module, 0, violations);
    check_argument("jobDir", &input.job_dir, "--job-dir=".len(), violations);
}

/// Checks that the parameters named in `argument`, at `place`, exist in every trial.
fn check_placeholders(place: &str, argument: &str, input: &TrainingInput, violations: &mut Violations) {
    let params = input.hyperparameters.as_ref().map_or(&[][..], |spec| &spec.params);
    let is_inherited = input.hyperparameters.as_ref().is_some_and(super::inherits_parameters);
    for (at, _) in argument.match_indices(PLACEHOLDER).filter(|_| !is_inherited) {
        let rest = &argument[at + PLACEHOLDER.len()..];
        let Some((name, _)) = rest.split_once('}') else { continue };
        // Two braces stand for the text itself.
        if argument[..at].ends_with('{') {
            continue;
        }
        if !params.iter().any(|parameter| parameter.parameter_name == name) {
            violations.error(
                place,
                format_args!("{{parameters.{name}}} names no parameter"),
                "a parameterName of params",
            );
        } else if input.tunesmith.conditions.iter().any(|condition| condition.parameter == name) {
            let message = format_args!("{{parameters.{name}}} names a parameter that some trials do not have");
            violations.error(place, message, "a parameter without a condition");
        }
    }
}

/// Fault of the name of an environment variable, with what is allowed; `None` if it may be set.
pub fn variable_fault(name: &str) -> Option<(String, &'static str)> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !name.starts_with(is_start) || !name.chars().all(|c| is_start(c) || c.is_ascii_digit()) {
        let allowed = "letters, digits and _, no digit first";
        return Some((format!("{name:?} is no name of a variable"), allowed));
    }
    let is_reserved = RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || RESERVED.contains(&name);
    is_reserved.then(|| (format!("{name:?} is set by the service"), "another name"))
}

pub(super) fn check_environment(additions: &Additions, violations: &mut Violations) {
    let variables = &additions.environment;
    if variables.len() > MAX_VARIABLES {
        let message = format_args!("{} variables are given", variables.len());
        violations.error("tunesmith.environment", message, format_args!("at most {MAX_VARIABLES}"));
    }
    for (name, value) in variables {
        let field = format!("tunesmith.environment.{name}");
        if let Some((message, allowed)) = variable_fault(name) {
            violations.error(&field, message, allowed);
        }
        check_argument(&field, value, name.len() + 1, violations);
    }
}

/// Checks that `parameter`, at `path`, can be passed as `--name=value`.
pub(super) fn check_flag(path: &str, parameter: &ParameterSpec, violations: &mut Violations) {
    let name = parameter.parameter_name.as_str();
    let field = format!("{path}.parameterName");
    check_argument(&field, name, "--=".len(), violations);
    if name.is_empty() {
        violations.error(field, "is empty", "a name, used as --<parameterName>=<value>");
    } else if !is_parsable(name) {
        violations.warning(
            field,
            format_args!("{name:?} is a command-line flag that few programs can parse"),
            "recommended: letters, digits, '_' and '-', starting with a letter",
        );
    } else if matches!(name, "job-dir" | "job_dir") {
        violations.warning(
            field,
            format_args!("{name:?} is also the flag of the job's output folder"),
            "recommended: another name",
        );
    }
    for (index, level) in parameter.categorical_values.iter().enumerate() {
        check_argument(format_args!("{path}.categoricalValues[{index}]"), level, "--=".len() + name.len(), violations);
    }
}

/// Whether argument parsers read `--name=value` as a value of `name`.
fn is_parsable(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_alphanumeric() || first == '_');
    starts && name.chars().all(|letter| letter.is_alphanumeric() || "_-./+".contains(letter))
}

/// Checks that `text`, with a prefix of `more` bytes, can be an argument.
fn check_argument(field: impl Display, text: &str, more: usize, violations: &mut Violations) {
    let allowed = "an argument of a program: no NUL, at most 128 KiB with its flag";
    if let Some(position) = text.chars().position(|letter| letter == '\0') {
        violations.error(field, format_args!("the character {} is NUL", position + 1), allowed);
    } else if text.len() + more > MAX_ARGUMENT_BYTES {
        violations.error(field, format_args!("{} bytes are given", text.len()), allowed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::super::{Severity, check};
    use super::*;

    fn found(input: Value) -> Vec<(String, Severity)> {
        let input: TrainingInput = from_value(input).unwrap();
        check(&input).into_iter().map(|violation| (violation.field, violation.severity)).collect()
    }

    fn of_parameter(name: &str, values: &[&str]) -> Vec<(String, Severity)> {
        let params = json!([{"parameterName": name, "type": "CATEGORICAL", "categoricalValues": values}]);
        found(json!({"hyperparameters": {"goal": "MAXIMIZE", "params": params}}))
    }

    #[test]
    fn names_that_programs_cannot_parse_are_warned_about() {
        for name in ["epochs:", "x=1", "--x", "-x", "x y", "x\n", "x\r", "a\tb", "\"x\"", "$x", "x,y", "x;y", ":x"] {
            assert_eq!(
                of_parameter(name, &["a"]),
                [("hyperparameters.params[0].parameterName".to_owned(), Severity::Warning)],
                "{name:?}"
            );
        }
        for name in ["x", "learning_rate", "learning-rate", "conv.filters", "conv/filters", "_x", "größe", "2nd", "c++"]
        {
            assert_eq!(of_parameter(name, &["a"]), [], "{name:?}");
        }
    }

    #[test]
    fn arguments_that_cannot_be_passed_are_refused() {
        let longest = "a".repeat(MAX_ARGUMENT_BYTES - "--x=".len());
        let values = ["\0", "a\0b", &format!("{longest}a"), &longest];
        let fields =
            [0, 1, 2].map(|index| (format!("hyperparameters.params[0].categoricalValues[{index}]"), Severity::Error));
        assert_eq!(of_parameter("x", &values), fields);
        let name = ("hyperparameters.params[0].parameterName".to_owned(), Severity::Error);
        assert_eq!(of_parameter(&"x".repeat(200_000), &[])[0], name);
        assert_eq!(of_parameter("a\0", &["b"])[0], name);
        let input =
            json!({"args": ["a", "\0"], "jobDir": "a\0", "masterConfig": {"imageUri": "i", "containerArgs": ["\0"]}});
        let found = found(input);
        for field in ["args[1]", "masterConfig.containerArgs[0]", "jobDir"] {
            assert!(found.contains(&(field.to_owned(), Severity::Error)), "{field}: {found:?}");
        }
    }
}
