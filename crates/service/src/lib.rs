//! The use cases: submit and run jobs, record reports of trainers, suggest trials to clients.
//!
//! Wire formats, terminals, and the implementations of stores and executors are in other crates. Progress is emitted as
//! [`JobEvent`]s, which the command line or a server may display.

mod agent_reports;
pub mod allowed_folders;
pub mod artifacts;
mod bounded_cache;
pub mod clock;
mod early_stopping;
mod events;
pub mod filters;
pub mod job_logs;
pub mod jobs;
mod live_trials;
mod number_set;
pub mod packages;
pub mod pages;
mod plan_check;
mod reports;
pub mod resource_pool;
mod runner;
pub mod search_policy;
mod secret;
pub mod studies;
mod study_cache;
mod study_end;
mod study_spec;
mod submission;
mod trainer;

pub use agent_reports::{AgentAnswer, AgentError, AgentReports, AuthorizedRun, DirectoryOf};
pub use events::{Activity, JobEvent};
pub use live_trials::{LiveTrials, ReportError, TrialKey};
pub use plan_check::{PlanPart, PlanProblem};
pub use reports::TrialReports;
pub use resource_pool::ResourcePool;
pub use runner::{Control, JobOutcome, JobServices, ProgramUserOf, RunError, RunSettings, attempt_directory};
pub use study_spec::{NewStudy, StudySpec};
pub use submission::{RESUME_PREVIOUS_JOB, Submission, SubmitError, Submitted};
pub use tunesmith_telemetry::WaitKind;
