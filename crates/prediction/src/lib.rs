#![doc = include_str!("../README.md")]

mod batch;
mod changes;
mod container;
mod container_spec;
mod copy;
mod creation;
mod engines;
mod filter;
mod index;
mod latency;
mod limits;
mod maintenance;
mod model_files;
mod models;
mod nodes;
mod operations;
mod pods;
mod pool;
mod pool_status;
mod python_worker;
mod records;
mod runner;
mod serving;
mod shared_files;
#[cfg(test)]
mod tests;
mod worker;
mod worker_log;

pub use batch::{BatchModel, BatchRequest, DEFAULT_BATCH_SIZE, DEFAULT_MAX_WORKERS, InputFormat, OutputFormat};
pub use changes::{ModelChange, NewModel, VersionChange};
pub use container_spec::{Container, DEFAULT_PORT};
pub use copy::{CopiedModels, CopyModelsError, copy_models};
pub use engines::EngineOptions;
pub use filter::{ModelFilter, VersionFilter};
pub use latency::Latencies;
pub use limits::WorkerLimits;
pub use model_files::{MAX_FILES, MAX_MODEL_BYTES};
pub use models::{ModelServices, Models};
pub use nodes::PredictionTimes;
pub use pods::{PodPlatform, WorkerLink};
pub use pool_status::PoolStatus;
pub use records::{
    FieldNotice, Framework, MAX_NAME, MAX_VERSIONS, Model, ModelSource, Operation, OperationKind, Outcome, Scaling,
    Version, VersionSpec, VersionState, check_name,
};
pub use runner::{LoadReport, RUNNER, RunnerSettings};
pub use serving::MAX_REQUEST_BYTES;
pub use worker::{Content, Reply};
