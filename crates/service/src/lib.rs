//! The use cases: submitting and running jobs, suggesting and completing trials, accepting the reports of trainers.
//!
//! Wire formats, terminals, and the implementations of stores and executors are not part of this crate. The run of a
//! job
//! emits [`JobEvent`]s, which the command line displays.

pub mod clock;
mod early_stopping;
mod events;
pub mod job_logs;
pub mod jobs;
mod live_trials;
pub mod packages;
pub mod pages;
pub mod policy;
mod reports;
mod runner;
mod secret;
pub mod studies;
mod study_spec;
mod submission;
mod trainer;

pub use events::JobEvent;
pub use live_trials::{LiveTrials, ReportError, TrialKey};
pub use reports::TrialReports;
pub use runner::{Control, JobOutcome, JobServices, RunError, RunSettings};
pub use study_spec::{NewStudy, StudySpec};
pub use submission::{Submission, SubmitError, Submitted};
