//! `TrainingInput`: what a training job runs, on what, and what it tunes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalars::int32_or_text;
use super::{Additions, HyperparameterSpec, Int64, ProtoDuration, ReplicaConfig, is_default};

/// The input of a training job. With `hyperparameters` the job is a tuning job.
///
/// Fields that AI Platform requires but that a command line may supply (`scaleTier`, `region`, `packageUris`,
/// `pythonModule`) may be absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TrainingInput {
    /// The set of machines. Without effect in a local run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_tier: Option<ScaleTier>,
    /// Machine type of the master; required with `CUSTOM`. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub master_type: String,
    /// Machine type of workers; required if there are any. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub worker_type: String,
    /// Machine type of parameter servers; required if there are any. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub parameter_server_type: String,
    /// Machine type of evaluators; required if there are any. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub evaluator_type: String,
    /// How many workers; only with `CUSTOM`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub worker_count: Int64,
    /// How many parameter servers; only with `CUSTOM`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub parameter_server_count: Int64,
    /// How many evaluators; only with `CUSTOM`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub evaluator_count: Int64,
    /// Container and machine of the master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_config: Option<ReplicaConfig>,
    /// Container and machine of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_config: Option<ReplicaConfig>,
    /// Container and machine of parameter servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter_server_config: Option<ReplicaConfig>,
    /// Container and machine of evaluators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluator_config: Option<ReplicaConfig>,
    /// Python packages with the training program and what it depends on, at most 100.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 100))]
    pub package_uris: Vec<String>,
    /// The module to run after the packages are installed.
    #[serde(skip_serializing_if = "is_default")]
    pub python_module: String,
    /// Arguments of the program. Excludes `containerCommand` and `containerArgs`.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// What is tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperparameters: Option<HyperparameterSpec>,
    /// The region to run in. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub region: String,
    /// Where the program keeps its output; each trial gets a folder of its own below it, as `--job-dir`.
    #[serde(skip_serializing_if = "is_default")]
    pub job_dir: String,
    /// AI Platform runtime version. Excludes `masterConfig.imageUri`. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub runtime_version: String,
    /// Python version: 3.7, 3.5 or 2.7. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub python_version: String,
    /// Limits of time, and the place in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Keys of the customer. Without effect in a local run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_config: Option<EncryptionConfig>,
    /// The network to peer with. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub network: String,
    /// The account to run as. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account: String,
    /// `TF_CONFIG` calls the master `chief`.
    #[serde(skip_serializing_if = "is_default")]
    pub use_chief_in_tf_config: bool,
    /// An interactive shell into the containers. Without effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub enable_web_access: bool,
    /// Tunesmith's own additions; everything outside this key is as AI Platform published it.
    #[serde(skip_serializing_if = "is_default")]
    pub tunesmith: Additions,
}

/// Named sets of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScaleTier {
    /// One small machine.
    #[serde(rename = "BASIC")]
    Basic,
    /// Many workers and a few parameter servers.
    #[serde(rename = "STANDARD_1")]
    Standard1,
    /// Many workers and many parameter servers.
    #[serde(rename = "PREMIUM_1")]
    Premium1,
    /// One machine with a GPU.
    #[serde(rename = "BASIC_GPU")]
    BasicGpu,
    /// One machine with a TPU.
    #[serde(rename = "BASIC_TPU")]
    BasicTpu,
    /// As `masterType`, `workerCount` and the like say.
    #[serde(rename = "CUSTOM")]
    Custom,
}

/// Limits of time, and the place in the queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scheduling {
    /// How long the job may run, counted from `RUNNING`; it is cancelled when the time is over. Default `604800s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_time: Option<ProtoDuration>,
    /// How long the job may wait before it is `RUNNING`, at least `1800s`; no limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_time: Option<ProtoDuration>,
    /// 0 to 1000, higher first. Default 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0, max = 1000), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub priority: Option<i32>,
}

/// Keys of the customer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EncryptionConfig {
    /// Resource name of the key.
    #[serde(skip_serializing_if = "is_default")]
    pub kms_key_name: String,
}
