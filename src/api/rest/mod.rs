//! HTTP routes: wire types, mapping and status codes, nothing else.

mod body;
mod call;
mod envelope;
mod examples;
pub mod gate;
mod health;
mod job_filter;
mod job_iam;
pub mod job_logs;
pub mod jobs;
pub mod listener;
mod method_override;
mod names;
pub mod openapi;
mod operations;
pub mod optimizer;
pub mod packages;
mod projects;
mod query;
mod request_id;
mod request_key;
pub mod routes;
pub mod server;
pub mod status;
mod studies;
pub mod trial_reports;
mod trials;
