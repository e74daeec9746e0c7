//! Resolved settings of a job's runs.
//!
//! A plan is resolved from the configuration and the command line at submission and stored with the job, so that a
//! resumed job runs in the same way. Not here: the stored form.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Document, JobId, MachinePlan, Resources};

#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    /// Total number of trials; 1 for a job without hyperparameters.
    pub max_trials: u64,
    /// Maximum number of concurrent trials.
    pub max_parallel_trials: u64,
    /// Number of failed trials at which the job fails; 0 selects the job runner's default rule.
    pub max_failed_trials: u64,
    /// Tag of the first metric in the trainer's reports.
    pub metric_tag: String,
    /// Tags of the other metrics and the constraints, in configuration order.
    pub further_tags: Vec<String>,
    /// Whether metrics are also read from standard output.
    pub metric_from_stdout: bool,
    /// Path suffix of the only event file folder whose metrics count; `None` for all folders.
    pub metric_folder: Option<String>,
    /// Program of the master.
    pub program: ProgramPlan,
    /// Replicas besides the master.
    pub replicas: Vec<ReplicaPlan>,
    /// User arguments; they precede those of the trial.
    pub args: Vec<String>,
    /// Working directory of the programs.
    pub working_directory: PathBuf,
    /// Parent of the trials' folders for models and events: a local path, or an address such as `gs://b/j`.
    pub job_dir: Option<String>,
    /// Name of the flag that passes the trial's folder, without dashes; `None` for `job-dir`.
    pub job_dir_flag: Option<String>,
    /// Whether `TF_CONFIG` calls the master `chief`.
    pub master_is_chief: bool,
    /// Contract between the service and the programs of the job.
    pub contract: TrainerContract,
    /// User variables of the master; each may refer to earlier ones.
    pub variables: Vec<Variable>,
    /// Jobs of higher priority start first.
    pub priority: i32,
    /// Time limit from submission until the job is first `RUNNING`.
    pub max_wait_time: Option<Duration>,
    /// Time limit from when the job is first `RUNNING` until its end.
    pub max_running_time: Option<Duration>,
    /// Time limit for one attempt at a trial.
    pub trial_time_limit: Option<Duration>,
    /// Grace period between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Number of retries after lost attempts before a trial fails.
    pub max_lost_attempts: u64,
    /// Whether the programs continue from the checkpoints in their folder, so that trials that were stopped early may go on.
    pub continues_from_checkpoints: bool,
    /// Placement and resources.
    pub machines: MachinePlan,
    /// Submitter, for limits per principal; `None` without access control.
    pub principal: Option<String>,
}

impl JobPlan {
    /// Plan of a batch prediction submitted by `principal`: no program.
    pub fn of_prediction(working_directory: PathBuf, principal: Option<String>) -> Self {
        Self {
            max_trials: 1,
            max_parallel_trials: 1,
            max_failed_trials: 0,
            metric_tag: String::new(),
            further_tags: Vec::new(),
            metric_from_stdout: false,
            metric_folder: None,
            program: ProgramPlan::Command { argv: Vec::new() },
            replicas: Vec::new(),
            args: Vec::new(),
            working_directory,
            job_dir: None,
            job_dir_flag: None,
            master_is_chief: false,
            contract: TrainerContract::AiPlatform,
            variables: Vec::new(),
            priority: 0,
            max_wait_time: None,
            max_running_time: None,
            trial_time_limit: None,
            grace: Duration::ZERO,
            max_lost_attempts: 0,
            continues_from_checkpoints: false,
            machines: MachinePlan::default(),
            principal,
        }
    }

    /// Number of replicas of an attempt, including the master.
    pub fn replica_count(&self) -> usize {
        self.replicas.iter().fold(1, |sum, replicas| sum + replicas.count as usize)
    }

    /// All tags the trainer reports; empty for a job without hyperparameters.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let first = Some(self.metric_tag.as_str()).filter(|tag| !tag.is_empty());
        first.into_iter().chain(self.further_tags.iter().map(String::as_str))
    }

    /// The job-dir as a local folder; `None` if it is unset or remote.
    pub fn local_job_dir(&self) -> Option<PathBuf> {
        let job_dir = self.job_dir.as_deref()?;
        match job_dir.split_once("://") {
            None => Some(PathBuf::from(job_dir)),
            Some(("file", path)) => Some(PathBuf::from(path)),
            Some(_) => None,
        }
    }
}

/// Address of the package with the trainers of the built-in algorithms, which is part of this program, in
/// [`ProgramPlan::PythonModule::package_uris`].
pub const BUILT_IN_TRAINERS: &str = "tunesmith://built-in";

/// Program of a replica.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramPlan {
    /// Module of Python packages, which are installed first. The packages of the master serve all replicas.
    PythonModule {
        /// Addresses of wheels or sdists, as configured.
        package_uris: Vec<String>,
        /// Source folder to be packaged and installed.
        package_path: Option<PathBuf>,
        /// Additional pip requirements.
        requirements: Vec<String>,
        /// Module to run.
        module: String,
        /// Fixed arguments.
        args: Vec<String>,
    },
    /// Command on the local machine.
    Command {
        /// The program and its fixed arguments.
        argv: Vec<String>,
    },
    Container {
        image: String,
        /// Replaces the image's entry point unless empty.
        command: Vec<String>,
        /// Fixed arguments.
        args: Vec<String>,
    },
}

impl ProgramPlan {
    /// Whether this is the trainer of a built-in algorithm.
    pub fn is_built_in(&self) -> bool {
        matches!(self, Self::PythonModule { package_uris, .. } if package_uris.iter().any(|uri| uri == BUILT_IN_TRAINERS))
    }
}

/// Replicas with one role.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaPlan {
    pub role: Role,
    pub count: u32,
    /// Program; `None` for the master's.
    pub program: Option<ProgramPlan>,
    /// User variables.
    pub variables: Vec<Variable>,
    /// Resources per replica.
    pub resources: Resources,
}

/// Environment variable set by the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    pub value: String,
}

/// Contract between the service and programs: arguments, environment variables, names of replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TrainerContract {
    /// `--job-dir`, and `TF_CONFIG` with the roles of AI Platform.
    #[default]
    AiPlatform,
    /// `AIP_` variables, and `CLUSTER_SPEC` with worker pools; `TF_CONFIG` with more than one replica only.
    VertexAi {
        /// Folder that the `AIP_` variables name, also if the server does not read it as [`JobPlan::job_dir`].
        output_directory: Option<String>,
        /// Flags of parameters whose name is not their own, by name.
        flags: BTreeMap<String, String>,
        /// Folders of the server's machine that stand for buckets, which programs look for at `/gcs/BUCKET`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        buckets: BTreeMap<String, PathBuf>,
    },
}

/// Role of a replica in a distributed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Its end is the end of the attempt.
    Master,
    /// Runs a part of the training.
    Worker,
    /// Holds the model's parameters.
    ParameterServer,
    /// Evaluates checkpoints; not listed in the `TF_CONFIG` cluster.
    Evaluator,
}

/// Stored plan that this version cannot interpret. The document is preserved through other changes of the job.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct UnreadablePlan {
    pub document: Document,
    pub reason: String,
}

/// A job cannot run because its stored plan is unreadable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the plan of job {job} cannot be read")]
pub struct PlanError {
    pub job: JobId,
    pub source: UnreadablePlan,
}
