//! HTTP routes: wire types, mapping and status codes, nothing else.

mod body;
mod call;
mod envelope;
pub mod gate;
mod health;
mod job_filter;
mod job_iam;
pub mod job_logs;
pub mod jobs;
pub mod listener;
mod method_override;
mod names;
mod operations;
pub mod optimizer;
pub mod packages;
mod parameters;
mod request_id;
mod request_key;
pub mod server;
pub mod status;
mod studies;
pub mod trial_reports;
mod trials;
