//! Black-box tests: the command line, real processes, real files.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod access;
mod bench;
mod cli_client;
mod config;
mod containers;
mod crash;
mod docs;
mod examples;
mod executor;
mod explain;
mod first_hour;
mod growth;
mod hostile_bodies;
mod jobs;
mod local_train;
mod metrics_collector;
mod misbehaving_trainers;
mod notices;
mod openapi;
mod optimizer;
mod published_fields;
mod python;
mod python_client;
mod python_packages;
mod real_trainers;
mod response_form;
mod run;
mod server;
mod service_crash;
mod service_order;
mod soak;
mod store;
mod support;
mod tls;
#[cfg(feature = "otlp")]
mod traces;
mod trial_completion;
mod uploads_and_logs;
mod wire;
