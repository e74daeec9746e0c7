//! `TrainingInput`: program, machines and hyperparameters of a training job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalars::int32_or_text;
use super::{Additions, HyperparameterSpec, Int64, ProtoDuration, ReplicaConfig, is_default};

/// Input of a training job. With `hyperparameters`, the job is a tuning job.
///
/// Fields that AI Platform requires but the command line may supply (`scaleTier`, `region`, `packageUris`,
/// `pythonModule`) are optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TrainingInput {
    /// Set of machines. `STANDARD_1` and `PREMIUM_1` include workers and parameter servers besides the master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_tier: Option<ScaleTier>,
    /// Machine type of the master; required with `CUSTOM`. Its resources are requested if the server accounts for them.
    #[serde(skip_serializing_if = "is_default")]
    pub master_type: String,
    /// Machine type of workers; required if there are any.
    #[serde(skip_serializing_if = "is_default")]
    pub worker_type: String,
    /// Machine type of parameter servers; required if there are any.
    #[serde(skip_serializing_if = "is_default")]
    pub parameter_server_type: String,
    /// Machine type of evaluators; required if there are any.
    #[serde(skip_serializing_if = "is_default")]
    pub evaluator_type: String,
    /// Number of workers; only with `CUSTOM`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub worker_count: Int64,
    /// Number of parameter servers; only with `CUSTOM`. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub parameter_server_count: Int64,
    /// Number of evaluators; only with `CUSTOM`. Default 0.
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
    /// Python packages with the training program and its dependencies, at most 100.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 100))]
    pub package_uris: Vec<String>,
    /// Module to run after the packages are installed.
    #[serde(skip_serializing_if = "is_default")]
    pub python_module: String,
    /// Arguments of the program. Excludes `containerCommand` and `containerArgs`.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Hyperparameters of a tuning job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperparameters: Option<HyperparameterSpec>,
    /// Region. No effect unless the server configuration lists regions.
    #[serde(skip_serializing_if = "is_default")]
    pub region: String,
    /// Output folder of the program; each trial gets a subfolder, as `--job-dir`.
    #[serde(skip_serializing_if = "is_default")]
    pub job_dir: String,
    /// AI Platform runtime version. Excludes `masterConfig.imageUri`. No effect unless the server configuration lists
    /// runtime versions.
    #[serde(skip_serializing_if = "is_default")]
    pub runtime_version: String,
    /// Python version: 3.7, 3.5 or 2.7. No effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub python_version: String,
    /// Time limits and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Customer-managed encryption keys. No effect in a local run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_config: Option<EncryptionConfig>,
    /// Network to peer with. No effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub network: String,
    /// Service account of the program. No effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account: String,
    /// Whether `TF_CONFIG` names the master `chief`.
    #[serde(skip_serializing_if = "is_default")]
    pub use_chief_in_tf_config: bool,
    /// Whether containers have an interactive shell. No effect in a local run.
    #[serde(skip_serializing_if = "is_default")]
    pub enable_web_access: bool,
    /// Tunesmith's extensions; all other fields are as published by AI Platform.
    #[serde(skip_serializing_if = "is_default")]
    pub tunesmith: Additions,
}

/// Named set of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
    /// Defined by `masterType`, `workerCount` and similar fields.
    #[serde(rename = "CUSTOM")]
    Custom,
}

impl ScaleTier {
    /// Tiers with fixed machines.
    pub const PREDEFINED: [Self; 5] = [Self::Basic, Self::Standard1, Self::Premium1, Self::BasicGpu, Self::BasicTpu];

    /// Published name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "BASIC",
            Self::Standard1 => "STANDARD_1",
            Self::Premium1 => "PREMIUM_1",
            Self::BasicGpu => "BASIC_GPU",
            Self::BasicTpu => "BASIC_TPU",
            Self::Custom => "CUSTOM",
        }
    }
}

/// Time limits and priority.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scheduling {
    /// Maximum run time from the state `RUNNING`, after which the job is cancelled. No limit by default, unlike on AI
    /// Platform (`604800s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_time: Option<ProtoDuration>,
    /// Maximum time until the state `RUNNING`, at least `1800s`. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_time: Option<ProtoDuration>,
    /// Priority from 0 to 1000, higher first. Default 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0, max = 1000), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub priority: Option<i32>,
}

/// Customer-managed encryption keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EncryptionConfig {
    /// Resource name of the key.
    #[serde(skip_serializing_if = "is_default")]
    pub kms_key_name: String,
}
