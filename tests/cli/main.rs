//! The command line: configurations, runs, submissions, reports.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod bench;
mod best_results;
mod built_in;
mod cli_client;
mod config;
mod constraints;
mod continued_jobs;
mod environment;
mod exact_flags;
mod explain;
mod gcloud_formats;
mod import;
mod live_progress;
mod local_train;
mod measure;
mod metric_series;
mod metrics_collector;
mod published_configs;
mod python_packages;
mod real_trainers;
mod report;
mod run;
mod search_settings;
mod soak;
mod stopping_rules;
mod vertex_files;
mod yaml_reading;
