//! Rules for fields that are accepted, but overridden by other fields.
//!
//! Not here: fields that never have an effect ([`super::without_effect()`]).

use super::violations::Violations;
use super::{Int64, ReplicaConfig, ScaleTier, TrainingInput};

/// Warns about overridden fields of `input`, and reports conflicting programs.
pub(super) fn check_effects(input: &TrainingInput, violations: &mut Violations) {
    check_programs(input, violations);
    check_replicas(input, violations);
    if input.hyperparameters.is_some() {
        check_job_dir("jobDir", &input.job_dir, violations);
    }
}

/// Warns about a job-dir in which event files are not read.
pub(super) fn check_job_dir(field: &str, job_dir: &str, violations: &mut Violations) {
    let scheme = job_dir.split_once("://").map(|(scheme, _)| scheme);
    if let Some(scheme) = scheme.filter(|scheme| !["file", "gs", "s3"].contains(scheme)) {
        violations.warning(
            field,
            format_args!("TensorFlow event files below {scheme}:// are not read"),
            "a folder, gs:// or s3:// for trainers that report with event files; with hypertune, HTTP or standard output any \
             URI",
        );
    }
}

fn check_programs(input: &TrainingInput, violations: &mut Violations) {
    let Some(master) = &input.master_config else { return };
    if !master.image_uri.is_empty() || master.container_command.is_empty() {
        return;
    }
    let other = if !input.python_module.is_empty() {
        "pythonModule"
    } else if !input.package_uris.is_empty() {
        "packageUris"
    } else {
        return;
    };
    violations.error(
        other,
        "is given together with the command masterConfig.containerCommand",
        "one program: pythonModule with packageUris, or a command",
    );
}

fn check_replicas(input: &TrainingInput, violations: &mut Violations) {
    let roles = [
        ("worker", input.worker_count, &input.worker_config),
        ("parameterServer", input.parameter_server_count, &input.parameter_server_config),
        ("evaluator", input.evaluator_count, &input.evaluator_config),
    ];
    let has_image = input.master_config.as_ref().is_some_and(|master| !master.image_uri.is_empty());
    let tier = input.scale_tier;
    for (role, Int64(count), config) in roles {
        let Some(config) = config else { continue };
        // The tier has its own counts.
        let has_tier = role != "evaluator" && matches!(tier, Some(ScaleTier::Standard1 | ScaleTier::Premium1));
        if count == 0 && !has_tier {
            violations.warning(
                format_args!("{role}Config"),
                format_args!("has no effect: {role}Count is 0"),
                format_args!("only with {role}Count above 0"),
            );
        } else if !has_image && let Some(field) = program_field(config) {
            violations.warning(
                format_args!("{role}Config.{field}"),
                "has no effect: without masterConfig.imageUri all replicas run the program of the master",
                "only with masterConfig.imageUri",
            );
        }
    }
}

/// First field of `config` that selects a program.
fn program_field(config: &ReplicaConfig) -> Option<&'static str> {
    let fields = [
        ("imageUri", !config.image_uri.is_empty()),
        ("containerCommand", !config.container_command.is_empty()),
        ("containerArgs", !config.container_args.is_empty()),
    ];
    fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
}
