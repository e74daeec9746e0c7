#![doc = include_str!("../README.md")]

mod agent_reports;
pub mod allowed_folders;
pub mod artifacts;
mod batch_predictions;
mod bucket_folders;
mod events;
mod filter;
pub mod job_logs;
mod jobs;
mod live_trials;
pub mod packages;
mod plan_check;
mod refusal;
mod reports;
pub mod resource_pool;
mod runner;
mod secret;
mod submission;
mod tracking;
mod trainer;

pub use agent_reports::{AgentError, AgentReports, AuthorizedRun, DirectoryOf};
pub use batch_predictions::{BatchError, BatchPredictions, BatchRun, NoBatchPredictions};
pub use events::{Activity, JobEvent};
pub use filter::JobFilter;
pub use jobs::{
    Extension, JobReport, Jobs, JobsError, LogLimiter, LogLimits, QueueLimits, QueueLoad, QueueSettings, RETRY_PAUSES,
    SlotCounts,
};
pub use live_trials::{LiveTrials, ReportError, TrialKey};
pub use plan_check::{PlanPart, PlanProblem};
pub use reports::TrialReports;
pub use resource_pool::ResourcePool;
pub use runner::{Control, JobOutcome, JobServices, ProgramUserOf, RunError, RunSettings, attempt_directory};
pub use submission::{PredictionSubmission, Submission, SubmitError, Submitted};
pub use tracking::{JobTracking, NoTracking, TrackingStatus};
