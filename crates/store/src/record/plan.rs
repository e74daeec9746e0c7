//! Plans of jobs, as a document inside the record of the job.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machines::{MachineRecord, ResourcesRecord};
use tunesmith_domain::{JobPlan, ProgramPlan, ReplicaPlan, Role, UnreadablePlan};

/// The newest version of the document. 1: as below; documents of version 1 have no `v` field.
const VERSION: u32 = 1;

/// The stored form of `plan`, with its keys in alphabetical order.
pub(crate) fn encode_plan(plan: &JobPlan) -> Value {
    serde_json::to_value(PlanRecord::from(plan)).expect("a plan has text keys and no floating-point numbers")
}

/// Decodes the result of [`encode_plan`]. A document that cannot be interpreted is no damage: only running the job needs it.
pub(super) fn decode_plan(document: Value) -> Result<JobPlan, UnreadablePlan> {
    let version = document.get("v").and_then(Value::as_u64).unwrap_or(1);
    let decoded = if version > VERSION.into() {
        Err(format!("it has version {version}, this program reads up to {VERSION}"))
    } else {
        PlanRecord::deserialize(&document).map_err(|error| error.to_string())
    };
    match decoded {
        Ok(record) => Ok(record.into()),
        Err(reason) => Err(UnreadablePlan { document, reason }),
    }
}

#[derive(Serialize, Deserialize)]
struct PlanRecord {
    max_trials: u64,
    max_parallel_trials: u64,
    max_failed_trials: u64,
    metric_tag: String,
    /// Absent without any, and in records of versions with one metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    further_tags: Vec<String>,
    metric_from_stdout: bool,
    /// Absent without one, and in records of versions that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric_folder: Option<String>,
    program: ProgramRecord,
    replicas: Vec<ReplicaRecord>,
    args: Vec<String>,
    working_directory: PathBuf,
    job_dir: Option<String>,
    /// Absent for `job-dir`, and in records of versions that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job_dir_flag: Option<String>,
    master_is_chief: bool,
    /// Absent in records of versions without priorities.
    #[serde(default)]
    priority: i32,
    /// Absent in records of versions without priorities.
    #[serde(default)]
    max_wait_time: Option<Duration>,
    max_running_time: Option<Duration>,
    trial_time_limit: Option<Duration>,
    grace: Duration,
    max_lost_attempts: u64,
    /// Absent in records of versions without machines.
    #[serde(default, skip_serializing_if = "MachineRecord::is_empty")]
    machines: MachineRecord,
    /// Absent in records of versions without limits per principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum ProgramRecord {
    PythonModule { package_uris: Vec<String>, package_path: Option<PathBuf>, requirements: Vec<String>, module: String },
    Command { argv: Vec<String> },
    Container { image: String, command: Vec<String>, args: Vec<String> },
}

#[derive(Serialize, Deserialize)]
struct ReplicaRecord {
    #[serde(with = "RoleRecord")]
    role: Role,
    count: u32,
    program: Option<ProgramRecord>,
    /// Absent in records of versions without machines.
    #[serde(default, skip_serializing_if = "ResourcesRecord::is_empty")]
    resources: ResourcesRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Role")]
enum RoleRecord {
    Master,
    Worker,
    ParameterServer,
    Evaluator,
}

impl From<&JobPlan> for PlanRecord {
    fn from(plan: &JobPlan) -> Self {
        let JobPlan {
            max_trials,
            max_parallel_trials,
            max_failed_trials,
            metric_tag,
            further_tags,
            metric_from_stdout,
            metric_folder,
            program,
            replicas,
            args,
            working_directory,
            job_dir,
            job_dir_flag,
            master_is_chief,
            priority,
            max_wait_time,
            max_running_time,
            trial_time_limit,
            grace,
            max_lost_attempts,
            machines,
            principal,
        } = plan;
        Self {
            max_trials: *max_trials,
            max_parallel_trials: *max_parallel_trials,
            max_failed_trials: *max_failed_trials,
            metric_tag: metric_tag.clone(),
            further_tags: further_tags.clone(),
            metric_from_stdout: *metric_from_stdout,
            metric_folder: metric_folder.clone(),
            program: program.into(),
            replicas: replicas.iter().map(ReplicaRecord::from).collect(),
            args: args.clone(),
            working_directory: working_directory.clone(),
            job_dir: job_dir.clone(),
            job_dir_flag: job_dir_flag.clone(),
            master_is_chief: *master_is_chief,
            priority: *priority,
            max_wait_time: *max_wait_time,
            max_running_time: *max_running_time,
            trial_time_limit: *trial_time_limit,
            grace: *grace,
            max_lost_attempts: *max_lost_attempts,
            machines: machines.into(),
            principal: principal.clone(),
        }
    }
}

impl From<PlanRecord> for JobPlan {
    fn from(record: PlanRecord) -> Self {
        Self {
            max_trials: record.max_trials,
            max_parallel_trials: record.max_parallel_trials,
            max_failed_trials: record.max_failed_trials,
            metric_tag: record.metric_tag,
            further_tags: record.further_tags,
            metric_from_stdout: record.metric_from_stdout,
            metric_folder: record.metric_folder,
            program: record.program.into(),
            replicas: record.replicas.into_iter().map(ReplicaPlan::from).collect(),
            args: record.args,
            working_directory: record.working_directory,
            job_dir: record.job_dir,
            job_dir_flag: record.job_dir_flag,
            master_is_chief: record.master_is_chief,
            priority: record.priority,
            max_wait_time: record.max_wait_time,
            max_running_time: record.max_running_time,
            trial_time_limit: record.trial_time_limit,
            grace: record.grace,
            max_lost_attempts: record.max_lost_attempts,
            machines: record.machines.into(),
            principal: record.principal,
        }
    }
}

impl From<&ProgramPlan> for ProgramRecord {
    fn from(program: &ProgramPlan) -> Self {
        match program.clone() {
            ProgramPlan::PythonModule { package_uris, package_path, requirements, module } => {
                Self::PythonModule { package_uris, package_path, requirements, module }
            }
            ProgramPlan::Command { argv } => Self::Command { argv },
            ProgramPlan::Container { image, command, args } => Self::Container { image, command, args },
        }
    }
}

impl From<ProgramRecord> for ProgramPlan {
    fn from(record: ProgramRecord) -> Self {
        match record {
            ProgramRecord::PythonModule { package_uris, package_path, requirements, module } => {
                Self::PythonModule { package_uris, package_path, requirements, module }
            }
            ProgramRecord::Command { argv } => Self::Command { argv },
            ProgramRecord::Container { image, command, args } => Self::Container { image, command, args },
        }
    }
}

impl From<&ReplicaPlan> for ReplicaRecord {
    fn from(ReplicaPlan { role, count, program, resources }: &ReplicaPlan) -> Self {
        let program = program.as_ref().map(ProgramRecord::from);
        Self { role: *role, count: *count, program, resources: resources.into() }
    }
}

impl From<ReplicaRecord> for ReplicaPlan {
    fn from(ReplicaRecord { role, count, program, resources }: ReplicaRecord) -> Self {
        Self { role, count, program: program.map(ProgramPlan::from), resources: resources.into() }
    }
}
