//! Notices in responses about request fields without effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machines::NO_EFFECT;
use super::no_effect_rules::check_job_dir;
use super::output_rules::check_arguments;
use super::plan::CommandLine;
use super::violations::Violations;
use super::without_effect::names_machine;
use super::{Severity, TrainingInput, Violation, check, without_effect};
use tunesmith_domain::{Job, MachineNotice};

/// Request field without effect, or with an unexpected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Path of the field, such as `trainingInput.region`.
    pub field: String,
    /// Description of the service's behaviour.
    pub description: String,
}

/// Extension of a resource in a response: parts of its request without effect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Notices {
    /// Request fields without effect on this service, or with an unexpected one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

impl Notice {
    /// Notice about an ignored `field` that only the service sets.
    pub fn set_by_service(field: &str) -> Self {
        Self { field: field.to_owned(), description: "has no effect: the service sets it".to_owned() }
    }

    pub(super) fn of_warning(prefix: &str, violation: Violation) -> Self {
        let Violation { field, message, allowed, .. } = violation;
        Self { field: format!("{prefix}{field}"), description: format!("{message}; {allowed}") }
    }
}

/// Notices of `job`: about its training input, including `machines`, and about its run. Without `machines`, no
/// machine field has an effect.
pub(super) fn job_notices(job: &Job, machines: Option<&[MachineNotice]>) -> Vec<Notice> {
    let of_run = |text: &String| Notice { field: "trainingOutput".to_owned(), description: text.clone() };
    if let Some(prediction) = &job.prediction {
        let notice = |(field, description): &(String, String)| Notice {
            field: format!("predictionInput.{field}"),
            description: description.clone(),
        };
        return prediction.notices.iter().map(notice).collect();
    }
    let of_input = input_notices(&job.training_input, machines).into_iter();
    of_input.chain(job.notices.iter().map(of_run)).collect()
}

fn input_notices(input: &Value, machines: Option<&[MachineNotice]>) -> Vec<Notice> {
    // Input stored by an older version may be unreadable. It was checked on creation.
    let Ok(input) = TrainingInput::deserialize(input) else { return Vec::new() };
    let fields = effect_notices(&input, machines);
    // Those about names of machines are among `fields`.
    let others = machines.unwrap_or_default().iter().filter(|notice| !names_machine(&notice.field));
    let others = others.map(|notice| Notice {
        field: format!("trainingInput.{}", notice.field),
        description: notice.description.clone(),
    });
    let fields = fields.chain(others);
    let warnings = check(&input).into_iter().filter(|violation| violation.severity == Severity::Warning);
    fields.chain(warnings.map(|warning| Notice::of_warning("trainingInput.", warning))).collect()
}

/// Notices about fields of `input` whose effect is missing or unexpected.
fn effect_notices(input: &TrainingInput, machines: Option<&[MachineNotice]>) -> impl Iterator<Item = Notice> {
    without_effect(input).into_iter().filter_map(move |field| {
        let description = match machines.filter(|_| names_machine(&field)) {
            None => NO_EFFECT.to_owned(),
            Some(notices) => notices.iter().find(|notice| notice.field == field)?.description.clone(),
        };
        Some(Notice { field: format!("trainingInput.{field}"), description })
    })
}

/// Additional notices for a job run from a command line with the configuration `input`.
pub fn command_line_notices(input: &TrainingInput, command_line: &CommandLine) -> Vec<Notice> {
    let mut violations = Violations::default();
    if let (Some(_), Some(job_dir)) = (&input.hyperparameters, &command_line.job_dir) {
        check_job_dir("--job-dir", job_dir, &mut violations);
    }
    if input.hyperparameters.as_ref().and_then(|spec| spec.max_trials).is_some_and(|trials| trials > 1) {
        let flag = input.tunesmith.job_dir_flag.as_deref();
        check_arguments("the command after `--`", &command_line.command, flag, &mut violations);
    }
    let mut notices: Vec<Notice> =
        violations.into_vec().into_iter().map(|warning| Notice::of_warning("", warning)).collect();
    let mut replaced = |field: &str, by: &str| {
        notices.push(Notice { field: field.to_owned(), description: format!("has no effect: {by} replaces it") });
    };
    let has_image = input.master_config.as_ref().is_some_and(|master| !master.image_uri.is_empty());
    let has_package = command_line.package_path.is_some() || !input.package_uris.is_empty();
    if command_line.package_path.is_some() && !input.package_uris.is_empty() {
        replaced("packageUris", "--package-path");
    }
    if command_line.module_name.is_some() && !input.python_module.is_empty() {
        replaced("pythonModule", "--module-name");
    }
    if command_line.job_dir.is_some() && !input.job_dir.is_empty() {
        replaced("jobDir", "--job-dir");
    }
    if has_image || has_package || command_line.command.is_empty() {
        return notices;
    }
    let command = "the command after `--`";
    if command_line.module_name.is_some() {
        replaced("--module-name", command);
    } else if !input.python_module.is_empty() {
        replaced("pythonModule", command);
    }
    if input.master_config.as_ref().is_some_and(|master| !master.container_command.is_empty()) {
        replaced("masterConfig.containerCommand", command);
    }
    notices
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CommandLine, Notice, TrainingInput, command_line_notices, input_notices};

    fn fields(notices: Vec<Notice>) -> Vec<String> {
        notices.into_iter().map(|notice| notice.field).collect()
    }

    #[test]
    fn each_field_without_effect_is_named() {
        let input = json!({
            "region": "us-central1",
            "jobDir": "hdfs://host/out",
            "masterConfig": {"imageUri": "i", "acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_K80"}},
            "workerConfig": {"imageUri": "i"},
            "evaluatorCount": "1",
            "evaluatorConfig": {"imageUri": "i"},
            "scheduling": {"priority": 7, "maxWaitTime": "1800s"},
            "hyperparameters": {"goal": "MAXIMIZE", "params": [
                {"parameterName": "x", "type": "DISCRETE", "discreteValues": [1, 2], "minValue": 0},
            ]},
        });
        let expected = [
            "trainingInput.region",
            "trainingInput.masterConfig.acceleratorConfig",
            "trainingInput.workerConfig",
            "trainingInput.jobDir",
            "trainingInput.hyperparameters.params[0].minValue",
        ];
        assert_eq!(fields(input_notices(&input, None)), expected);
        assert_eq!(fields(input_notices(&json!({"args": ["a"], "jobDir": "gs://bucket"}), None)), [""; 0]);
        // The tier has its own workers and parameter servers.
        let config = json!({"containerCommand": ["true"]});
        let tier = json!({"scaleTier": "STANDARD_1", "masterConfig": {"imageUri": "i"}, "workerConfig": config,
            "parameterServerConfig": config, "evaluatorConfig": config});
        let found = fields(input_notices(&tier, None));
        assert!(found.contains(&"trainingInput.evaluatorConfig".to_owned()), "{found:?}");
        assert!(
            !found.iter().any(|field| field.contains("workerConfig") || field.contains("parameterServer")),
            "{found:?}"
        );
    }

    #[test]
    fn configuration_that_the_command_line_replaces_is_named() {
        let input: TrainingInput = serde_json::from_value(json!({
            "pythonModule": "trainer.task", "jobDir": "out", "hyperparameters": {},
        }))
        .unwrap();
        let command = CommandLine { command: vec!["true".to_owned()], ..CommandLine::default() };
        assert_eq!(fields(command_line_notices(&input, &command)), ["pythonModule"]);
        let package = CommandLine {
            package_path: Some("trainer".into()),
            module_name: Some("trainer.main".to_owned()),
            job_dir: Some("hdfs://b".to_owned()),
            ..command
        };
        assert_eq!(fields(command_line_notices(&input, &package)), ["--job-dir", "pythonModule", "jobDir"]);
        assert_eq!(fields(command_line_notices(&input, &CommandLine::default())), [""; 0]);
    }
}
