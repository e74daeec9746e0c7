//! Messages of jobs, however they were submitted.

use prost::Name;
use serde_json::Value;
use tunesmith_api::ai_platform::job::display_name;
use tunesmith_domain::{Code, Job, JobPlan, JobState, ProgramPlan, Refusal, Role, Study, Variable};

use super::super::{config_of, spec_of};
use super::KEPT;
use crate::json;
use crate::messages::rpc::Status;
use crate::messages::vertex::worker_pool_spec::Task;
use crate::messages::vertex::{self as wire, CustomJobSpec, EnvVar, MachineSpec, WorkerPoolSpec};
use crate::names;
use crate::time::{duration, timestamp};

/// Location of `job`; `None` for a job of `ml v1` without a region, which is in all locations.
pub fn location_of_job(job: &Job) -> Option<&str> {
    job.training_input["region"].as_str().filter(|region| !region.is_empty())
}

pub fn state_of_job(state: JobState) -> wire::JobState {
    match state {
        JobState::Queued => wire::JobState::Queued,
        JobState::Preparing => wire::JobState::Pending,
        JobState::Running => wire::JobState::Running,
        JobState::Succeeded => wire::JobState::Succeeded,
        JobState::Failed => wire::JobState::Failed,
        JobState::Cancelling => wire::JobState::Cancelling,
        JobState::Cancelled => wire::JobState::Cancelled,
    }
}

/// Error of a failed or cancelled job.
fn error_of_job(job: &Job) -> Option<Status> {
    let code = match job.state {
        JobState::Failed => Code::InvalidArgument,
        JobState::Cancelled => Code::Cancelled,
        _ => return None,
    };
    Some(Status { code: code.number(), message: job.error_message.clone(), details: Vec::new() })
}

/// Message of the type `$message` with what all messages of jobs have, and the given fields.
macro_rules! message {
    ($message:ident, $job:expr, $location:expr, { $($fields:tt)* }) => {
        wire::$message {
            name: names::vertex::of_job($job, $location),
            display_name: display_name($job).to_owned(),
            state: state_of_job($job.state).into(),
            create_time: Some(timestamp($job.create_time)),
            start_time: $job.start_time.map(timestamp),
            end_time: $job.end_time.map(timestamp),
            update_time: Some(update_time($job)),
            error: error_of_job($job),
            labels: $job.labels.clone(),
            $($fields)*
            ..wire::$message::default()
        }
    };
}

/// Message for `job`, which has no study, at `location`.
///
/// # Errors
/// If what was submitted cannot be read by this version.
pub fn message_of_custom_job(job: &Job, location: &str) -> Result<wire::CustomJob, Refusal> {
    let given = given::<wire::CustomJob>(job)?;
    let (job_spec, encryption_spec) = match given {
        Some(given) => (given.job_spec, given.encryption_spec),
        None => (specification(job), None),
    };
    Ok(message!(CustomJob, job, location, { job_spec, encryption_spec, }))
}

/// Message for `job` with `study`, at `location`, and `trials`.
///
/// # Errors
/// If what was submitted cannot be read by this version.
pub fn message_of_tuning_job(
    job: &Job,
    study: Option<&Study>,
    trials: Vec<wire::Trial>,
    location: &str,
) -> Result<wire::HyperparameterTuningJob, Refusal> {
    let (study_spec, trial_job_spec, encryption_spec) = match given::<wire::HyperparameterTuningJob>(job)? {
        Some(given) => (given.study_spec, given.trial_job_spec, given.encryption_spec),
        None => (study.map(|study| config_of(study).map(|it| spec_of(&it))).transpose()?, specification(job), None),
    };
    let count = |count: fn(&JobPlan) -> u64| {
        job.plan.as_ref().ok().and_then(|plan| i32::try_from(count(plan)).ok()).unwrap_or_default()
    };
    Ok(message!(HyperparameterTuningJob, job, location, {
        study_spec,
        trial_job_spec,
        encryption_spec,
        trials,
        max_trial_count: count(|plan| plan.max_trials),
        parallel_trial_count: count(|plan| plan.max_parallel_trials),
        max_failed_trial_count: count(|plan| plan.max_failed_trials),
    }))
}

/// Latest known change of `job`.
fn update_time(job: &Job) -> prost_types::Timestamp {
    let times = [Some(job.create_time), job.requeue_time, job.start_time, job.end_time];
    timestamp(times.into_iter().flatten().max().unwrap_or(job.create_time))
}

/// The message with which `job` was submitted through the API of Vertex AI.
fn given<M: prost::Message + Name + Default>(job: &Job) -> Result<Option<M>, Refusal> {
    let document = match &job.training_input["tunesmith"]["vertex"] {
        Value::Null => return Ok(None),
        document => document.to_string(),
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        let text = format!("what was submitted as job {} cannot be read by this version: {error}", job.id);
        Refusal::new(Code::Internal, text)
    };
    let message = json::read(document.as_bytes(), json::descriptor(&KEPT.message(&M::full_name()))?, "");
    let message = message.map_err(|refusal| unreadable(&refusal.message))?;
    message.transcode_to().map(Some).map_err(|error| unreadable(&error))
}

/// Specification of the programs of a job that was submitted in another way; `None` if its plan cannot be read.
fn specification(job: &Job) -> Option<CustomJobSpec> {
    let plan = job.plan.as_ref().ok()?;
    let machine_type = |field: &str| job.training_input[field].as_str().unwrap_or_default().to_owned();
    let pool = |program: &ProgramPlan, variables: &[Variable], count: u32, type_field: &str| WorkerPoolSpec {
        machine_spec: Some(MachineSpec { machine_type: machine_type(type_field), ..MachineSpec::default() }),
        replica_count: count.into(),
        task: Some(task(program, &plan.args, variables)),
        ..WorkerPoolSpec::default()
    };
    let mut pools = vec![pool(&plan.program, &plan.variables, 1, "masterType")];
    for (role, type_field) in [
        (Role::Worker, "workerType"),
        (Role::ParameterServer, "parameterServerType"),
        (Role::Evaluator, "evaluatorType"),
    ] {
        pools.push(
            plan.replicas.iter().find(|group| group.role == role).map_or_else(WorkerPoolSpec::default, |group| {
                pool(group.program.as_ref().unwrap_or(&plan.program), &group.variables, group.count, type_field)
            }),
        );
    }
    while pools.last().is_some_and(|pool| *pool == WorkerPoolSpec::default()) {
        pools.pop();
    }
    Some(CustomJobSpec {
        worker_pool_specs: pools,
        scheduling: plan
            .max_running_time
            .map(|limit| wire::Scheduling { timeout: Some(duration(limit)), ..wire::Scheduling::default() }),
        base_output_directory: plan
            .job_dir
            .as_ref()
            .map(|folder| wire::GcsDestination { output_uri_prefix: folder.clone() }),
        ..CustomJobSpec::default()
    })
}

fn task(program: &ProgramPlan, args: &[String], variables: &[Variable]) -> Task {
    let env = variables.iter().map(|it| EnvVar { name: it.name.clone(), value: it.value.clone() }).collect();
    let all = |fixed: &[String]| fixed.iter().chain(args).cloned().collect();
    match program {
        ProgramPlan::Container { image, command, args: fixed } => Task::ContainerSpec(wire::ContainerSpec {
            image_uri: image.clone(),
            command: command.clone(),
            args: all(fixed),
            env,
        }),
        ProgramPlan::Command { argv } => Task::ContainerSpec(wire::ContainerSpec {
            image_uri: String::new(),
            command: argv.clone(),
            args: args.to_vec(),
            env,
        }),
        ProgramPlan::PythonModule { package_uris, module, args: fixed, .. } => {
            Task::PythonPackageSpec(wire::PythonPackageSpec {
                executor_image_uri: String::new(),
                package_uris: package_uris.clone(),
                python_module: module.clone(),
                args: all(fixed),
                env,
            })
        }
    }
}
