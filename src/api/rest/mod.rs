//! HTTP routes: wire types, mapping and status codes, nothing else.

mod body;
mod examples;
mod job_filter;
mod job_iam;
pub mod jobs;
mod method_override;
mod names;
pub mod openapi;
mod operations;
pub mod optimizer;
mod projects;
mod query;
pub mod routes;
pub mod server;
pub mod status;
mod studies;
pub mod trial_reports;
mod trials;
