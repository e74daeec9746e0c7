//! HTTP routes: wire types, mapping and status codes, nothing else.

mod body;
mod job_filter;
mod job_iam;
pub mod job_logs;
pub mod jobs;
mod method_override;
mod names;
mod operations;
pub mod optimizer;
pub mod packages;
mod parameters;
pub mod server;
pub mod status;
mod studies;
pub mod trial_reports;
mod trials;
