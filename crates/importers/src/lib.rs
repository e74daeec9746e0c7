#![doc = include_str!("../README.md")]

mod container;
mod katib;
mod optimization_job;
pub mod optuna;
mod reading;
mod resources;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "vizier")]
pub mod vizier;
mod wandb;

use serde_json::Value;
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::optimizer::StudyConfig;

pub use katib::katib;
pub use optimization_job::optimization_job;
pub use wandb::wandb;

/// A text about a field: its path, and the text.
pub type About = (String, String);

/// A job in another tool's file.
#[derive(Debug)]
pub struct Imported {
    pub training_input: TrainingInput,
    /// Fields whose loss changes the job.
    pub losses: Vec<About>,
    /// Remarks for the user that do not change the job.
    pub notes: Vec<String>,
}

/// A study of another tool with its trials, for the API of studies.
#[derive(Debug)]
pub struct ImportedStudy {
    pub config: StudyConfig,
    /// Bodies of requests that create the trials.
    pub trials: Vec<Value>,
    /// Kinds of content left out, each with its count.
    pub losses: Vec<String>,
    pub notes: Vec<String>,
}

/// Settings of the command line that complete a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Total number of trials; `None` for that of the file.
    pub max_trials: Option<u32>,
}
