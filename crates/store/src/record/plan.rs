//! Plans of jobs, as a document inside the record of the job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::{As, Read, Written, forms, is_default};
use tunesmith_domain::{
    JobPlan, MachineNotice, MachinePlan, ProgramPlan, ReplicaPlan, Resources, Role, TrainerContract, UnreadablePlan,
    Variable,
};

/// The newest version of the document. 1: as below; documents of version 1 have no `v` field.
const VERSION: u32 = 1;

/// The stored form of `plan`, with its keys in alphabetical order.
pub(crate) fn encode_plan(plan: &JobPlan) -> Value {
    let plan = serde_json::to_value(Written::<_, PlanRecord>::new(plan));
    plan.expect("a plan has text keys and no floating-point numbers")
}

/// Decodes the result of [`encode_plan`]. A document that cannot be interpreted is no damage: only running the job needs it.
pub(super) fn decode_plan(document: Value) -> Result<JobPlan, UnreadablePlan> {
    let version = document.get("v").and_then(Value::as_u64).unwrap_or(1);
    let decoded = if version > VERSION.into() {
        Err(format!("it has version {version}, this program reads up to {VERSION}"))
    } else {
        Read::<_, PlanRecord>::deserialize(&document).map_err(|error| error.to_string())
    };
    decoded.map(|read| read.0).map_err(|reason| UnreadablePlan { document, reason })
}

forms! {
    PlanRecord => JobPlan,
    ProgramRecord => ProgramPlan,
    ReplicaRecord => ReplicaPlan,
    NoticeRecord => MachineNotice,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "JobPlan")]
struct PlanRecord {
    max_trials: u64,
    max_parallel_trials: u64,
    max_failed_trials: u64,
    metric_tag: String,
    #[serde(default, skip_serializing_if = "is_default")]
    further_tags: Vec<String>,
    metric_from_stdout: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    metric_folder: Option<String>,
    #[serde(with = "ProgramRecord")]
    program: ProgramPlan,
    #[serde(with = "As::<Vec<ReplicaRecord>>")]
    replicas: Vec<ReplicaPlan>,
    args: Vec<String>,
    working_directory: PathBuf,
    job_dir: Option<String>,
    /// Absent for `job-dir`.
    #[serde(default, skip_serializing_if = "is_default")]
    job_dir_flag: Option<String>,
    master_is_chief: bool,
    /// Absent for that of AI Platform.
    #[serde(default, skip_serializing_if = "is_default")]
    contract: TrainerContract,
    #[serde(default, skip_serializing_if = "is_default")]
    variables: Vec<Variable>,
    priority: i32,
    max_wait_time: Option<Duration>,
    max_running_time: Option<Duration>,
    trial_time_limit: Option<Duration>,
    grace: Duration,
    max_lost_attempts: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    continues_from_checkpoints: bool,
    #[serde(default, skip_serializing_if = "is_default", with = "MachineRecord")]
    machines: MachinePlan,
    #[serde(default, skip_serializing_if = "is_default")]
    principal: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ProgramPlan")]
enum ProgramRecord {
    PythonModule {
        package_uris: Vec<String>,
        package_path: Option<PathBuf>,
        requirements: Vec<String>,
        module: String,
        #[serde(default, skip_serializing_if = "is_default")]
        args: Vec<String>,
    },
    Command {
        argv: Vec<String>,
    },
    Container {
        image: String,
        command: Vec<String>,
        args: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReplicaPlan")]
struct ReplicaRecord {
    role: Role,
    count: u32,
    #[serde(with = "As::<Option<ProgramRecord>>")]
    program: Option<ProgramPlan>,
    #[serde(default, skip_serializing_if = "is_default")]
    variables: Vec<Variable>,
    #[serde(default, skip_serializing_if = "is_default")]
    resources: Resources,
}

/// The machines of a job. What is not requested is absent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "MachinePlan")]
struct MachineRecord {
    #[serde(default, skip_serializing_if = "is_default")]
    resources: Resources,
    #[serde(default, skip_serializing_if = "is_default")]
    executor: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    queue: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    options: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    python: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "is_default", with = "As::<Vec<NoticeRecord>>")]
    notices: Vec<MachineNotice>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MachineNotice")]
struct NoticeRecord {
    field: String,
    description: String,
}
