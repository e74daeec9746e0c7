//! Conversion of a `TrainingInput` and the command line to a job's plan.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::built_in::{BuiltInAlgorithm, given_twice};
use super::machines::{MachineMap, Machines};
use super::{ProtoDuration, ReplicaConfig, TrainingInput, Violation, study_spec};
use tunesmith_domain::{IdError, JobId, JobPlan, ProgramPlan, ReplicaPlan, Role, StudySpec, TrainerContract, Variable};

/// Command line of a job, apart from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// `--package-path`, absolute.
    pub package_path: Option<PathBuf>,
    /// `--module-name`.
    pub module_name: Option<String>,
    /// `--job-dir`.
    pub job_dir: Option<String>,
    /// Arguments after `--`: for the trainer or, if the configuration names no trainer, its command.
    pub command: Vec<String>,
    /// Working directory of the command, absolute.
    pub working_directory: PathBuf,
    /// Base of relative job folders, absolute; `None` for the working directory.
    pub job_dir_base: Option<PathBuf>,
}

/// Failures to derive a job from a configuration and a command line.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    #[error(
        "no program is given: give a command after `--`, or --package-path with --module-name, or packageUris \
         with pythonModule, or masterConfig.imageUri"
    )]
    NoProgram,
    #[error("packageUris are given, but no module to run: give --module-name, or pythonModule")]
    NoModule,
    #[error("a module is given, but no package with it: give --package-path, or packageUris")]
    NoPackage,
    #[error(
        "masterConfig.imageUri excludes --package-path, packageUris and a module: the container image contains the program"
    )]
    TwoPrograms,
    #[error("a built-in algorithm writes its model to the job folder: give jobDir, or --job-dir")]
    NoJobDir,
    /// An argument of a built-in algorithm is also a parameter.
    #[error("--{name} is a parameter and an argument; give a fixed value, or a parameter, not both")]
    GivenTwice { name: String },
    #[error("{field} is {value}; 0 to 1000 are allowed")]
    ReplicaCount {
        /// Path of the field.
        field: &'static str,
        value: i64,
    },
    /// The server lacks the requested machines.
    #[error("{}", listed(violations))]
    Machines {
        /// Violations by field; at least one.
        violations: Vec<Violation>,
    },
    #[error("hyperparameters.resumePreviousJobId")]
    PreviousJob(#[from] IdError),
    /// The hyperparameters do not describe a study. Excluded by checking the configuration.
    #[error("hyperparameters")]
    Study(#[from] super::StudySpecError),
}

fn listed(violations: &[Violation]) -> String {
    let each = violations.iter().map(|one| format!("{}: {}; allowed: {}", one.field, one.message, one.allowed));
    each.collect::<Vec<_>>().join("; ")
}

/// Maximum number of replicas of one role. All may run on this machine.
const MAX_REPLICAS: i64 = 1000;

/// Study of a tuning job; `None` without hyperparameters.
///
/// # Errors
/// [`PlanningError::Study`].
pub fn job_study(input: &TrainingInput) -> Result<Option<StudySpec>, PlanningError> {
    let Some(hyperparameters) = &input.hyperparameters else { return Ok(None) };
    Ok(Some(study_spec(hyperparameters, &input.tunesmith)?.study))
}

/// Job continued by `input`, whose trials are prior knowledge for its study.
///
/// # Errors
/// [`PlanningError::PreviousJob`].
pub fn previous_job(input: &TrainingInput) -> Result<Option<JobId>, PlanningError> {
    let previous = input.hyperparameters.as_ref().map_or("", |spec| &spec.resume_previous_job_id);
    Ok(if previous.is_empty() { None } else { Some(previous.parse::<JobId>()?) })
}

/// Canonical JSON of a training input with new limits on total and concurrent trials; unchanged without
/// hyperparameters.
pub fn with_trial_counts(training_input: &Value, max_trials: Option<u64>, max_parallel_trials: Option<u64>) -> Value {
    let mut input = training_input.clone();
    if let Some(Value::Object(hyperparameters)) = input.get_mut("hyperparameters") {
        for (name, count) in [("maxTrials", max_trials), ("maxParallelTrials", max_parallel_trials)] {
            hyperparameters.extend(count.map(|count| (name.to_owned(), count.into())));
        }
    }
    input
}

/// Plan of the job on a server without a configuration.
///
/// # Errors
/// Those of [`job_plan_on`].
pub fn job_plan(input: &TrainingInput, command_line: &CommandLine) -> Result<JobPlan, PlanningError> {
    job_plan_on(&MachineMap::published(), input, command_line)
}

/// Plan of the job on a server with the machines `map`.
///
/// # Errors
/// [`PlanningError`], which names the missing, contradictory or unknown part.
pub fn job_plan_on(
    map: &MachineMap,
    input: &TrainingInput,
    command_line: &CommandLine,
) -> Result<JobPlan, PlanningError> {
    let machines = map.resolve(input).map_err(|violations| PlanningError::Machines { violations })?;
    let image = input.master_config.as_ref().map_or("", |config| config.image_uri.as_str());
    let job_dir = command_line.job_dir.clone().or_else(|| Some(input.job_dir.clone()).filter(|dir| !dir.is_empty()));
    let base = command_line.job_dir_base.as_ref().unwrap_or(&command_line.working_directory);
    let job_dir = job_dir.map(|dir| absolute(dir, base));
    let built_in = BuiltInAlgorithm::of_input(input);
    let program = if image.is_empty() {
        local_program(input, command_line)?
    } else {
        let container = container_program(input, command_line, image)?;
        match built_in {
            Some(algorithm) => algorithm.program(input, job_dir.as_deref().ok_or(PlanningError::NoJobDir)?),
            None => container,
        }
    };
    let mut args = input.args.clone();
    if !matches!(program, ProgramPlan::Command { .. }) {
        args.extend(command_line.command.iter().cloned());
    }
    if built_in.is_some()
        && let Some((_, name)) = given_twice(input, &args)
    {
        return Err(PlanningError::GivenTwice { name: name.to_owned() });
    }
    let counts = match &input.hyperparameters {
        Some(spec) => {
            let spec = study_spec(spec, &input.tunesmith)?;
            (spec.max_trials, spec.max_parallel_trials, spec.max_failed_trials)
        }
        None => (1, 1, 0),
    };
    let metric_tag = input.hyperparameters.as_ref().map_or("", |spec| spec.metric_tag()).to_owned();
    let scheduling = input.scheduling.as_ref();
    Ok(JobPlan {
        max_trials: counts.0.into(),
        max_parallel_trials: counts.1.into(),
        max_failed_trials: counts.2.into(),
        metric_tag,
        further_tags: input.tunesmith.metrics.iter().map(|metric| metric.metric.clone()).collect(),
        metric_from_stdout: input.tunesmith.metric_from_stdout,
        metric_folder: input.tunesmith.metric_folder.clone(),
        job_dir_flag: input.tunesmith.job_dir_flag.clone(),
        // A built-in algorithm trains on one machine.
        replicas: if built_in.is_some() { Vec::new() } else { replicas(input, &machines, &program)? },
        program,
        args,
        working_directory: command_line.working_directory.clone(),
        job_dir,
        master_is_chief: input.use_chief_in_tf_config,
        contract: TrainerContract::AiPlatform,
        variables: variables(input),
        priority: scheduling.and_then(|scheduling| scheduling.priority).unwrap_or(0),
        max_wait_time: scheduling.and_then(|scheduling| duration(scheduling.max_wait_time)),
        max_running_time: scheduling.and_then(|scheduling| duration(scheduling.max_running_time)),
        trial_time_limit: duration(input.tunesmith.trial_time_limit),
        grace: input.tunesmith.stop_grace_period(),
        max_lost_attempts: input.tunesmith.max_lost_attempts().into(),
        continues_from_checkpoints: input.tunesmith.continues_from_checkpoints,
        machines: machines.plan,
        principal: None,
    })
}

fn variables(input: &TrainingInput) -> Vec<Variable> {
    let variables = input.tunesmith.environment.iter();
    variables.map(|(name, value)| Variable { name: name.clone(), value: value.clone() }).collect()
}

fn local_program(input: &TrainingInput, command_line: &CommandLine) -> Result<ProgramPlan, PlanningError> {
    let module = command_line.module_name.clone().unwrap_or_else(|| input.python_module.clone());
    // As with gcloud, a package folder on the command line replaces the configured packages.
    let package_uris = if command_line.package_path.is_some() { Vec::new() } else { input.package_uris.clone() };
    let has_package = command_line.package_path.is_some() || !package_uris.is_empty();
    match (has_package, module.is_empty()) {
        (true, false) => Ok(ProgramPlan::PythonModule {
            package_uris,
            package_path: command_line.package_path.clone(),
            requirements: input.tunesmith.requirements.clone(),
            module,
            args: Vec::new(),
        }),
        (true, true) => Err(PlanningError::NoModule),
        (false, _) if !command_line.command.is_empty() => {
            Ok(ProgramPlan::Command { argv: command_line.command.clone() })
        }
        (false, false) => Err(PlanningError::NoPackage),
        (false, true) => match &input.master_config {
            // A container command without an image runs on this machine.
            Some(config) if !config.container_command.is_empty() => {
                let argv = config.container_command.iter().chain(&config.container_args).cloned().collect();
                Ok(ProgramPlan::Command { argv })
            }
            _ => Err(PlanningError::NoProgram),
        },
    }
}

fn container_program(
    input: &TrainingInput,
    command_line: &CommandLine,
    image: &str,
) -> Result<ProgramPlan, PlanningError> {
    let module_given = command_line.module_name.is_some() || !input.python_module.is_empty();
    if command_line.package_path.is_some() || !input.package_uris.is_empty() || module_given {
        return Err(PlanningError::TwoPrograms);
    }
    Ok(container(image, input.master_config.as_ref()))
}

fn container(image: &str, config: Option<&ReplicaConfig>) -> ProgramPlan {
    ProgramPlan::Container {
        image: image.to_owned(),
        command: config.map(|config| config.container_command.clone()).unwrap_or_default(),
        args: config.map(|config| config.container_args.clone()).unwrap_or_default(),
    }
}

fn replicas(
    input: &TrainingInput,
    machines: &Machines,
    master: &ProgramPlan,
) -> Result<Vec<ReplicaPlan>, PlanningError> {
    let mut replicas = Vec::new();
    for (role, count, resources) in &machines.replicas {
        let (field, config) = match role {
            Role::Worker => ("workerCount", &input.worker_config),
            Role::ParameterServer => ("parameterServerCount", &input.parameter_server_config),
            Role::Evaluator => ("evaluatorCount", &input.evaluator_config),
            Role::Master => continue,
        };
        let value = count.0;
        if !(0..=MAX_REPLICAS).contains(&value) {
            return Err(PlanningError::ReplicaCount { field, value });
        }
        let count = value as u32;
        if count > 0 {
            let program = replica_program(master, config.as_ref());
            let resources = resources.clone();
            replicas.push(ReplicaPlan { role: *role, count, program, variables: variables(input), resources });
        }
    }
    Ok(replicas)
}

/// Program of a replica if it differs from the master's: its own image, or the master's with its own arguments.
fn replica_program(master: &ProgramPlan, config: Option<&ReplicaConfig>) -> Option<ProgramPlan> {
    let ProgramPlan::Container { image, .. } = master else { return None };
    let config = config?;
    let image = if config.image_uri.is_empty() { image } else { &config.image_uri };
    Some(container(image, Some(config)))
}

/// Resolves a relative local path against `base`; URIs are unchanged.
fn absolute(job_dir: String, base: &std::path::Path) -> String {
    if job_dir.contains("://") { job_dir } else { base.join(job_dir).display().to_string() }
}

fn duration(duration: Option<ProtoDuration>) -> Option<Duration> {
    duration.map(|duration| duration.0)
}
