//! How a job is run.
//!
//! A plan is resolved from the configuration and the command line when the job is submitted, and is part of the job, so
//! that a resumed job runs in the same way. Not here: the stored form of a plan.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Document, JobId, MachinePlan, Resources};

#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    /// Number of trials; 1 for a job without hyperparameters.
    pub max_trials: u64,
    /// Number of trials that run at once.
    pub max_parallel_trials: u64,
    /// Number of failed trials that fails the job; 0 selects the rule of the job runner.
    pub max_failed_trials: u64,
    /// Tag under which the trainer reports its first metric.
    pub metric_tag: String,
    /// Tags of the further metrics and of the constraints, in the order of the configuration.
    pub further_tags: Vec<String>,
    /// Whether metrics are also read from standard output.
    pub metric_from_stdout: bool,
    /// The only folder of event files whose metrics count, as the end of its path; `None` for all.
    pub metric_folder: Option<String>,
    /// The program of the master.
    pub program: ProgramPlan,
    /// Replicas besides the master.
    pub replicas: Vec<ReplicaPlan>,
    /// Arguments of the user, which precede those of the trial.
    pub args: Vec<String>,
    /// Working directory of the programs.
    pub working_directory: PathBuf,
    /// Parent of the trials' folders for models and events: a path of this machine, or an address such as `gs://b/j`.
    pub job_dir: Option<String>,
    /// The flag with which a program gets its folder, without dashes; `None` for `job-dir`.
    pub job_dir_flag: Option<String>,
    /// Whether the master is called `chief` in `TF_CONFIG`.
    pub master_is_chief: bool,
    /// Jobs of a higher priority start first.
    pub priority: i32,
    /// Longest time from submission until the job is first `RUNNING`.
    pub max_wait_time: Option<Duration>,
    /// Longest time from when the job is first `RUNNING` until its end.
    pub max_running_time: Option<Duration>,
    /// Longest time of one attempt at a trial.
    pub trial_time_limit: Option<Duration>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How often a trial runs again after an attempt was lost, before it fails.
    pub max_lost_attempts: u64,
    /// Where the job runs, and with which resources.
    pub machines: MachinePlan,
    /// Who submitted the job, for the limits per principal; `None` without access control.
    pub principal: Option<String>,
}

impl JobPlan {
    /// Number of replicas of an attempt, with the master.
    pub fn replica_count(&self) -> usize {
        self.replicas.iter().fold(1, |sum, replicas| sum + replicas.count as usize)
    }

    /// All tags under which the trainer reports values; empty for a job without hyperparameters.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let first = Some(self.metric_tag.as_str()).filter(|tag| !tag.is_empty());
        first.into_iter().chain(self.further_tags.iter().map(String::as_str))
    }

    /// The job-dir as a folder of this machine; `None` if there is none or it is an address elsewhere.
    pub fn local_job_dir(&self) -> Option<PathBuf> {
        let job_dir = self.job_dir.as_deref()?;
        match job_dir.split_once("://") {
            None => Some(PathBuf::from(job_dir)),
            Some(("file", path)) => Some(PathBuf::from(path)),
            Some(_) => None,
        }
    }
}

/// What a replica runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramPlan {
    /// A module of Python packages that are installed first.
    PythonModule {
        /// Addresses of wheels or sdists, as the configuration gives them.
        package_uris: Vec<String>,
        /// A source folder that is packed and installed.
        package_path: Option<PathBuf>,
        /// Further pip requirements.
        requirements: Vec<String>,
        /// The module that is run.
        module: String,
    },
    /// A command of this machine.
    Command {
        /// The program and its fixed arguments.
        argv: Vec<String>,
    },
    Container {
        image: String,
        /// Replaces the image's entry point, if not empty.
        command: Vec<String>,
        /// Fixed arguments.
        args: Vec<String>,
    },
}

/// Replicas of one role.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaPlan {
    pub role: Role,
    pub count: u32,
    /// The program; `None` for that of the master.
    pub program: Option<ProgramPlan>,
    /// The resources of each of them.
    pub resources: Resources,
}

/// What a replica does in a distributed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The replica whose end is the end of the job.
    Master,
    /// Computes.
    Worker,
    /// Holds parameters.
    ParameterServer,
    /// Evaluates checkpoints; not part of the cluster that `TF_CONFIG` lists.
    Evaluator,
}

/// A stored plan that this version cannot interpret. The document is kept, so that other changes of the job do not lose
/// it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct UnreadablePlan {
    pub document: Document,
    pub reason: String,
}

/// A job that cannot be run because its stored plan cannot be interpreted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the plan of job {job} cannot be read")]
pub struct PlanError {
    pub job: JobId,
    pub source: UnreadablePlan,
}
