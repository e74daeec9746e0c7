//! HTTP routes: wire types, mapping and status codes.
//!
//! The use cases are in `tunesmith-service`, the wire types in `tunesmith-api`.

pub mod authorization;
mod body;
mod completion;
mod examples;
mod health;
mod job_filter;
mod job_iam;
mod job_logs;
mod job_policy;
mod jobs;
pub mod listener;
mod method_override;
mod names;
mod openapi;
pub mod openapi_document;
mod operations;
mod packages;
mod paging;
mod projects;
mod query;
mod request_id;
mod request_key;
mod request_log;
mod routes;
pub mod server;
mod state;
mod status;
mod studies;
mod studies_api;
mod trial_reports;
mod trials;
