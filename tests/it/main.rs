//! Black-box tests: the command line, real processes, real files.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod config;
mod executor;
mod metrics_collector;
mod python;
mod python_packages;
mod store;
