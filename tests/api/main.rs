//! The HTTP API: access, routes, bodies, limits, and the published contract of AI Platform.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod access;
mod audit;
mod bounded_work;
mod connections;
mod hostile_bodies;
mod job_views;
mod jobs;
mod large_bodies;
mod notices;
mod openapi;
mod operation_names;
mod optimizer;
mod package_rules;
mod policy_race;
mod published_fields;
mod reload;
mod response_form;
mod route_access;
mod routing;
mod service_manager;
mod tls;
mod token_api;
mod traces;
mod trial_completion;
mod trial_notes;
mod upload_progress;
mod uploads_and_logs;
mod views;
mod wire;
