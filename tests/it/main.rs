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
mod job_views;
mod jobs;
mod local_train;
mod metrics_collector;
mod misbehaving_trainers;
mod openapi;
mod optimizer;
mod python;
mod python_client;
mod python_packages;
mod real_trainers;
mod reopen;
mod run;
mod server;
mod service_crash;
mod service_order;
mod store;
mod support;
#[cfg(feature = "otlp")]
mod traces;
mod uploads_and_logs;
mod wire;
