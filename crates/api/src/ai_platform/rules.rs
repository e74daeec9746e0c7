//! Published rules that the types do not express. All violations are reported together.
//!
//! Rules that depend on the command line are checked elsewhere: a program is required (`pythonModule` with
//! `packageUris`, `masterConfig.imageUri`, or a command), and AI Platform requires one of `runtimeVersion` and
//! `masterConfig.imageUri`.

use std::time::Duration;

use super::argument_rules::{check_arguments, check_environment};
use super::built_in::check_built_in;
use super::hyperparameter_rules::check_hyperparameters;
use super::no_effect_rules::check_effects;
use super::output_rules::check_outputs;
use super::violations::{Violation, Violations};
use super::{Additions, Int64, ProtoDuration, ReplicaConfig, ScaleTier, Scheduling, TrainingInput, is_default};
use tunesmith_domain::MAX_FOLDER_BYTES;

/// Maximum number of packages per job.
const MAX_PACKAGES: usize = 100;
/// Python versions of AI Platform.
const PYTHON_VERSIONS: [&str; 3] = ["3.7", "3.5", "2.7"];
/// Boot disk types of AI Platform.
const BOOT_DISK_TYPES: [&str; 2] = ["pd-ssd", "pd-standard"];
/// Minimum of `maxWaitTime`.
const MIN_WAIT_TIME: Duration = Duration::from_secs(1800);
/// Maximum of `priority`.
const MAX_PRIORITY: i32 = 1000;

/// Checks all rules, and returns the violations in no particular order. The input is valid if none has
/// [`super::Severity::Error`].
pub fn check(input: &TrainingInput) -> Vec<Violation> {
    let mut violations = Violations::default();
    check_machines(input, &mut violations);
    check_program(input, &mut violations);
    check_effects(input, &mut violations);
    check_built_in(input, &mut violations);
    check_arguments(input, &mut violations);
    for (name, config) in replica_configs(input) {
        check_replica(name, config, input, &mut violations);
    }
    if let Some(scheduling) = &input.scheduling {
        check_scheduling(scheduling, &mut violations);
    }
    check_additions(&input.tunesmith, &mut violations);
    check_outputs(input, &mut violations);
    match &input.hyperparameters {
        Some(spec) => check_hyperparameters(spec, &input.tunesmith, &mut violations),
        None => {
            if input.tunesmith.early_stopping.is_some() {
                violations.error(
                    "tunesmith.earlyStopping",
                    "there are no hyperparameters",
                    "only with hyperparameters.enableTrialEarlyStopping",
                );
            }
            for name in input.tunesmith.double_resolution.keys() {
                violations.error(
                    format!("tunesmith.doubleResolution.{name}"),
                    "there are no hyperparameters",
                    "only names of DOUBLE parameters",
                );
            }
            let tunesmith = &input.tunesmith;
            let fields = [
                ("tunesmith.metrics", !tunesmith.metrics.is_empty()),
                ("tunesmith.observationNoise", !is_default(&tunesmith.observation_noise)),
                ("tunesmith.repeats", tunesmith.repeats.is_some()),
                ("tunesmith.conditions", !tunesmith.conditions.is_empty()),
                ("tunesmith.priors", !tunesmith.priors.is_empty()),
                ("tunesmith.initialTrials", !tunesmith.initial_trials.is_empty()),
                ("tunesmith.earlyStoppingSettings", !is_default(&tunesmith.early_stopping_settings)),
                ("tunesmith.continuesFromCheckpoints", tunesmith.continues_from_checkpoints),
                ("tunesmith.studyStoppingConfig", !is_default(&tunesmith.study_stopping_config)),
            ];
            for (field, _) in fields.into_iter().filter(|(_, is_given)| *is_given) {
                violations.error(field, "there are no hyperparameters", "only with hyperparameters");
            }
        }
    }
    violations.into_vec()
}

fn replica_configs(input: &TrainingInput) -> impl Iterator<Item = (&'static str, &ReplicaConfig)> {
    [
        ("masterConfig", &input.master_config),
        ("workerConfig", &input.worker_config),
        ("parameterServerConfig", &input.parameter_server_config),
        ("evaluatorConfig", &input.evaluator_config),
    ]
    .into_iter()
    .filter_map(|(name, config)| Some((name, config.as_ref()?)))
}

fn check_machines(input: &TrainingInput, violations: &mut Violations) {
    let custom = input.scale_tier == Some(ScaleTier::Custom);
    if custom && input.master_type.is_empty() {
        violations.missing("masterType", "masterType", "is missing", "required with scaleTier CUSTOM");
    }
    let replicas = [
        ("worker", input.worker_count, &input.worker_type),
        ("parameterServer", input.parameter_server_count, &input.parameter_server_type),
        ("evaluator", input.evaluator_count, &input.evaluator_type),
    ];
    for (role, Int64(count), machine_type) in replicas {
        let field = format!("{role}Count");
        if count < 0 {
            violations.error(&field, format_args!("{count} is negative"), "a whole number from 0");
        }
        if count <= 0 {
            continue;
        }
        // The scale tier may still come from the command line, so only a given one can contradict the counts.
        if input.scale_tier.is_some() && !custom {
            violations.error(
                &field,
                format_args!("{count} replicas, but the scale tier is fixed"),
                "above 0 only with scaleTier CUSTOM",
            );
        } else if custom && machine_type.is_empty() {
            violations.missing(
                format_args!("{role}Type"),
                format_args!("{role}Type"),
                "is missing",
                format_args!("required because {role}Count is {count}"),
            );
        }
    }
}

fn check_program(input: &TrainingInput, violations: &mut Violations) {
    if input.package_uris.len() > MAX_PACKAGES {
        let count = input.package_uris.len();
        violations.error(
            "packageUris",
            format_args!("{count} packages are given"),
            format_args!("at most {MAX_PACKAGES}"),
        );
    }
    for (index, uri) in input.package_uris.iter().enumerate() {
        if uri.is_empty() {
            violations.error(format_args!("packageUris[{index}]"), "is empty", "the URI or path of a Python package");
        }
    }
    let version = input.python_version.as_str();
    if !version.is_empty() && !PYTHON_VERSIONS.contains(&version) {
        violations.error(
            "pythonVersion",
            format_args!("{version:?} is not a Python version of AI Platform"),
            format_args!("one of {}", PYTHON_VERSIONS.join(", ")),
        );
    }
    let Some(master) = &input.master_config else { return };
    if !master.image_uri.is_empty() && !input.runtime_version.is_empty() {
        violations.error(
            "runtimeVersion",
            format_args!("{:?} is given together with a container image", input.runtime_version),
            "exactly one of runtimeVersion and masterConfig.imageUri",
        );
    }
    if !input.args.is_empty() && (!master.container_command.is_empty() || !master.container_args.is_empty()) {
        let other = if master.container_command.is_empty() { "containerArgs" } else { "containerCommand" };
        violations.error(
            "args",
            format_args!("are given together with masterConfig.{other}"),
            "either args, or containerCommand and containerArgs",
        );
    }
}

fn check_replica(name: &str, config: &ReplicaConfig, input: &TrainingInput, violations: &mut Violations) {
    let master_image = input.master_config.as_ref().is_some_and(|master| !master.image_uri.is_empty());
    if config.image_uri.is_empty() && !master_image {
        if !config.container_command.is_empty() && name == "masterConfig" {
            violations.warning(
                format_args!("{name}.containerCommand"),
                "is given without imageUri: the command is run on this machine, not in a container",
                "AI Platform allows it only with imageUri",
            );
        } else if !config.container_args.is_empty() && config.container_command.is_empty() {
            violations.missing(
                format_args!("{name}.containerArgs"),
                format_args!("{name}.imageUri"),
                "are given without imageUri",
                "only with imageUri; the arguments of a program without a container go to args",
            );
        }
    }
    if let Some(accelerators) = &config.accelerator_config
        && accelerators.count.0 < 0
    {
        violations.error(
            format_args!("{name}.acceleratorConfig.count"),
            format_args!("{} is negative", accelerators.count),
            "a whole number from 0",
        );
    }
    let Some(disk) = &config.disk_config else { return };
    if let Some(size) = disk.boot_disk_size_gb.filter(|size| *size < 0) {
        violations.error(
            format_args!("{name}.diskConfig.bootDiskSizeGb"),
            format_args!("{size} is below the minimum"),
            "a whole number from 1",
        );
    }
    if !disk.boot_disk_type.is_empty() && !BOOT_DISK_TYPES.contains(&disk.boot_disk_type.as_str()) {
        violations.error(
            format_args!("{name}.diskConfig.bootDiskType"),
            format_args!("{:?} is not a boot disk type", disk.boot_disk_type),
            format_args!("one of {}", BOOT_DISK_TYPES.join(", ")),
        );
    }
}

fn check_scheduling(scheduling: &Scheduling, violations: &mut Violations) {
    if scheduling.max_running_time.is_some_and(|time| time.0.is_zero()) {
        violations.error("scheduling.maxRunningTime", "is zero", "longer than 0s");
    }
    if let Some(time) = scheduling.max_wait_time.filter(|time| time.0 < MIN_WAIT_TIME) {
        violations.error(
            "scheduling.maxWaitTime",
            format_args!("{time} is too short"),
            format_args!("at least {}", ProtoDuration(MIN_WAIT_TIME)),
        );
    }
    if let Some(priority) = scheduling.priority.filter(|priority| !(0..=MAX_PRIORITY).contains(priority)) {
        violations.error(
            "scheduling.priority",
            format_args!("{priority} is out of range"),
            format_args!("a whole number from 0 to {MAX_PRIORITY}"),
        );
    }
}

fn check_additions(additions: &Additions, violations: &mut Violations) {
    check_environment(additions, violations);
    if let Some(mlflow) = &additions.mlflow {
        mlflow.check(violations);
    }
    if additions.vertex.is_some() {
        violations.error("tunesmith.vertex", "is set by the API of Vertex AI", "jobs submitted through that API");
    }
    if let Some(folder) = &additions.metric_folder {
        let is_path = folder.split('/').all(|part| part != "..") && !folder.starts_with('/');
        if folder.trim_matches('/').is_empty() || folder.len() > MAX_FOLDER_BYTES || !is_path {
            violations.error(
                "tunesmith.metricFolder",
                format_args!("{folder:?} is not a folder below that of the trial"),
                format_args!(
                    "the end of its path, such as validation, or a single full stop; at most {MAX_FOLDER_BYTES} bytes"
                ),
            );
        }
    }
    if let Some(flag) = &additions.job_dir_flag {
        let is_flag = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if flag.starts_with('-') || flag.is_empty() || !flag.bytes().all(is_flag) {
            violations.error(
                "tunesmith.jobDirFlag",
                format_args!("{flag:?} is not the name of a flag"),
                "letters, digits, '-', '_' and '.', without dashes in front: output-dir for --output-dir",
            );
        }
    }
    if additions.trial_time_limit.is_some_and(|time| time.0.is_zero()) {
        violations.error("tunesmith.trialTimeLimit", "is zero", "longer than 0s");
    }
    for (index, requirement) in additions.requirements.iter().enumerate() {
        // pip would parse a leading dash as an option.
        if requirement.trim().is_empty() || requirement.trim_start().starts_with('-') {
            violations.error(
                format_args!("tunesmith.requirements[{index}]"),
                format_args!("{requirement:?} is not a requirement"),
                "a requirement such as scikit-learn==1.5",
            );
        }
    }
}
