//! Tunesmith, a hyperparameter tuning service.
//!
//! The rooms and the direction of their dependencies are described in `ARCHITECTURE.md`.

pub mod access;
pub mod api;
pub mod bench;
pub mod cli;
pub mod clock;
pub mod config;
pub mod data_dir;
pub mod domain;
pub mod executor;
pub mod load;
pub mod metrics_collector;
pub mod policy;
pub mod python_packages;
pub mod service;
pub mod store;
pub mod telemetry;
