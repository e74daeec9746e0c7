//! Stores and data folders: what survives kills, full disks, power cuts and lost databases.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod copied_folders;
mod crash;
mod failing_folders;
mod growth;
mod job_trials;
mod large_integers;
mod postgres_chaos;
mod postgres_leases;
mod postgres_limits;
mod postgres_reports;
mod postgres_server;
mod reopen;
mod server_deaths;
mod service_crash;
mod service_order;
mod store;
mod store_failures;
mod token_loss;
