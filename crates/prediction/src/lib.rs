#![doc = include_str!("../README.md")]

mod changes;
mod creation;
mod filter;
mod latency;
mod maintenance;
mod model_files;
mod models;
mod operations;
mod pool;
mod records;
mod runner;
mod serving;
mod shared_files;
#[cfg(test)]
mod tests;
mod worker;
mod worker_log;

pub use changes::{ModelChange, NewModel, VersionChange};
pub use filter::{ModelFilter, VersionFilter};
pub use latency::Latencies;
pub use model_files::{MAX_FILES, MAX_MODEL_BYTES};
pub use models::{ModelServices, Models};
pub use pool::{PoolStatus, PredictionTimes};
pub use records::{
    FieldNotice, Framework, MAX_NAME, MAX_VERSIONS, Model, ModelSource, Operation, OperationKind, Outcome, Scaling, Version,
    VersionSpec, VersionState, check_name,
};
pub use runner::{LoadReport, RUNNER, RunnerSettings};
pub use serving::MAX_REQUEST_BYTES;
pub use worker::Reply;
