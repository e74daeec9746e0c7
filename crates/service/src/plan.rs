//! How a job is carried out: everything a runner must know, resolved from the configuration and the command line when
//! the job is submitted, and stored with it, so that a job taken up again is carried out in the same way.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tunesmith_domain::Job;
use tunesmith_executor::Role;

/// The plan of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Trials in all; 1 for a job that tunes nothing.
    pub max_trials: u64,
    /// Trials at once.
    pub max_parallel_trials: u64,
    /// How many failed trials fail the job; 0 leaves it to [`super::runner`].
    pub max_failed_trials: u64,
    /// Under which tag the trainer reports.
    pub metric_tag: String,
    /// Metrics are also read from standard output.
    pub metric_from_stdout: bool,
    /// What the master runs.
    pub program: ProgramPlan,
    /// Replicas besides the master.
    pub replicas: Vec<ReplicaPlan>,
    /// Arguments of the user, before those of the trial.
    pub args: Vec<String>,
    /// Where the programs start.
    pub working_directory: PathBuf,
    /// Parent of the trials' folders for models and events: a path of this machine, or an address such as `gs://b/j`.
    pub job_dir: Option<String>,
    /// The master is called `chief` in `TF_CONFIG`.
    pub master_is_chief: bool,
    /// Jobs of a higher one are begun before others.
    #[serde(default)]
    pub priority: i32,
    /// How long the job may wait for its first being `RUNNING`.
    #[serde(default)]
    pub max_wait_time: Option<Duration>,
    /// How long the job may run, from its first being `RUNNING`.
    pub max_running_time: Option<Duration>,
    /// How long one attempt at a trial may run.
    pub trial_time_limit: Option<Duration>,
    /// How long a program may take to end after SIGTERM.
    pub grace: Duration,
    /// How often a trial whose place was lost is run again before it fails.
    pub max_lost_attempts: u64,
}

/// What a job runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProgramPlan {
    /// A module of Python packages that are installed first.
    PythonModule {
        /// Addresses of wheels or sdists, as the configuration gives them.
        package_uris: Vec<String>,
        /// A source folder to be packed and installed.
        package_path: Option<PathBuf>,
        /// Further pip requirements.
        requirements: Vec<String>,
        /// The module that is run.
        module: String,
    },
    /// Any command of this machine.
    Command {
        /// The program and its fixed arguments.
        argv: Vec<String>,
    },
    /// A container.
    Container {
        /// The image.
        image: String,
        /// Replaces the image's entry point, if not empty.
        command: Vec<String>,
        /// Fixed arguments.
        args: Vec<String>,
    },
}

/// Some replicas of one role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaPlan {
    /// What they do.
    pub role: Role,
    /// How many.
    pub count: u32,
    /// What they run, if not what the master runs.
    pub program: Option<ProgramPlan>,
}

/// A stored job whose plan this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the plan of job {job} cannot be read")]
pub struct PlanError {
    job: String,
    source: serde_json::Error,
}

impl JobPlan {
    /// The plan that `job` was submitted with.
    ///
    /// # Errors
    /// [`PlanError`] if it was written by a program whose plans this one cannot read.
    pub fn of(job: &Job) -> Result<Self, PlanError> {
        Self::deserialize(&job.launch).map_err(|source| PlanError { job: job.id.to_string(), source })
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
