//! AI Platform's `Version` resource.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::container::{ContainerSpec, RouteMap};
use crate::ai_platform::is_default;
use crate::ai_platform::notices::Notices;

/// Version in a request.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "VersionRequest")]
pub struct VersionRequest {
    /// Name within the model; required at creation. Letters, digits and `_`, beginning with a letter.
    pub name: String,
    /// Description.
    pub description: String,
    /// Set by the service. The first version is the default.
    pub is_default: bool,
    /// Folder with the files of the model, copied at creation; optional for a container: `/FOLDER`, `gs://BUCKET/FOLDER` or `s3://BUCKET/FOLDER`.
    pub deployment_uri: String,
    /// Runtime version, as mapped to an interpreter by the server configuration.
    pub runtime_version: String,
    /// Python version. No effect: the runtime has an interpreter.
    pub python_version: String,
    /// Framework of the model; by default guessed from its files.
    pub framework: FrameworkName,
    /// Source archives or wheels to install before the model is loaded.
    pub package_uris: Vec<String>,
    /// Class of a custom prediction routine: `module.Class`.
    pub prediction_class: String,
    /// Machine type: memory and processors of a worker, by the server's map of machine types.
    pub machine_type: String,
    /// Service account. No effect.
    pub service_account: String,
    /// Number of workers, by demand.
    pub auto_scaling: Option<AutoScaling>,
    /// Constant number of workers.
    pub manual_scaling: Option<ManualScaling>,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// Accelerators. Not supported.
    pub accelerator_config: Option<Value>,
    /// Explanations. Not supported.
    pub explanation_config: Option<Value>,
    /// Log of requests in a table. Not supported.
    pub request_logging_config: Option<Value>,
    /// Container that answers predictions, instead of workers of an interpreter.
    pub container: Option<ContainerSpec>,
    /// Paths of the container's HTTP server.
    pub routes: Option<RouteMap>,
    /// No effect.
    pub etag: String,
    /// Set by the service.
    pub create_time: Option<Value>,
    /// Set by the service.
    pub last_use_time: Option<Value>,
    /// Set by the service.
    pub last_migration_time: Option<Value>,
    /// Set by the service.
    pub last_migration_model_id: Option<Value>,
    /// Set by the service.
    pub state: Option<Value>,
    /// Set by the service.
    pub error_message: Option<Value>,
    /// Tunesmith's extensions.
    pub tunesmith: VersionRequestAdditions,
}

/// Tunesmith's extensions of a version in a request.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct VersionRequestAdditions {
    /// Packages of the index to install, in pip's syntax, such as `scikit-learn==1.5.2`.
    pub requirements: Vec<String>,
    /// Job of the same project whose files are copied, instead of a `deploymentUri`. `name`, `runtimeVersion`, `framework` and
    /// `packageUris` are those of the job if they are absent.
    pub job: String,
    /// Trial of `job`: `best`, `recommended`, or its number. Default: `best`.
    pub trial: String,
    /// Folder of the model below that of the trial. Default: `model`, if the trial has left one.
    pub subfolder: String,
}

/// Framework of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "Framework")]
pub enum FrameworkName {
    /// Guessed from the files.
    #[default]
    FrameworkUnspecified,
    /// Not supported.
    Tensorflow,
    /// `model.joblib` or `model.pkl` of scikit-learn.
    ScikitLearn,
    /// `model.bst` of XGBoost, or a pickle.
    Xgboost,
}

/// Number of workers, by demand.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AutoScaling {
    /// Minimum; 0 by default: idle versions have no worker.
    pub min_nodes: i32,
    /// Maximum; that of the server by default.
    #[serde(skip_serializing_if = "is_default")]
    pub max_nodes: i32,
    /// Targets of utilization. No effect: workers are added while requests wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
}

/// Target of utilization.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "AutoScalingMetric")]
pub struct Metric {
    /// `CPU_USAGE` or `GPU_DUTY_CYCLE`.
    pub name: String,
    /// Percentage.
    pub target: i32,
}

/// Constant number of workers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ManualScaling {
    /// Number of workers, at least 1.
    pub nodes: i32,
}

/// Version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Version")]
pub struct VersionMessage {
    /// Resource name: `projects/{project}/models/{model}/versions/{version}`.
    pub name: String,
    /// Description.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it answers predictions that name no version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_default: bool,
    /// Folder that the files were copied from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deployment_uri: String,
    /// Creation time.
    pub create_time: Timestamp,
    /// Time of the last prediction, to within some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_use_time: Option<Timestamp>,
    /// Runtime version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime_version: String,
    /// Python version, as in the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub python_version: String,
    /// Framework, as in the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub framework: FrameworkName,
    /// Machine type, as in the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine_type: String,
    /// Packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub package_uris: Vec<String>,
    /// Class of a custom prediction routine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prediction_class: String,
    /// Container that answers predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerSpec>,
    /// Paths of the container's HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<RouteMap>,
    /// Number of workers, by demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<AutoScaling>,
    /// Constant number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual_scaling: Option<ManualScaling>,
    /// Labels by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// State: `CREATING`, `READY`, `FAILED` or `DELETING`.
    pub state: String,
    /// Reason of the state `FAILED`, with the traceback of the loader or the output of pip.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// Changes with every change of the model; base64.
    pub etag: String,
    /// Tunesmith's extensions.
    pub tunesmith: VersionAdditions,
}

/// Tunesmith's extensions of a version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VersionAdditions {
    /// Fields of the request without effect.
    #[serde(flatten)]
    pub notices: Notices,
    /// Job whose files were copied, if the version was created from one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// Trial of that job; absent if it has no hyperparameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trial: String,
    /// Installed packages of the index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// Interpreter of the workers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub python: String,
    /// Version of that Python, once the model was loaded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub python_version: String,
    /// Framework of the loaded model; `CUSTOM_CLASS` for a custom prediction routine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub loaded_framework: String,
    /// Versions of the packages that the model uses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub package_versions: BTreeMap<String, String>,
    /// Warnings while the model was loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Workers on the server that answered.
    pub workers: WorkerStatus,
}

/// Workers of a version on one server, and their requests since its start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "WorkerStatus")]
pub struct WorkerStatus {
    /// Workers that have loaded the model.
    pub ready: usize,
    /// Workers that load it, or wait for a node.
    pub starting: usize,
    /// Requests that wait for a worker.
    pub waiting_requests: usize,
    /// Requests that the model answered.
    pub requests: u64,
    /// Requests among them that the model answered with an error.
    pub errors: u64,
    /// Requests without an answer of the model: overload, time limit, end of a worker.
    pub failures: u64,
    /// Mean time of the answered requests in milliseconds.
    pub mean_millis: f64,
    /// Median time of the answered requests in milliseconds, to within 9%.
    pub median_millis: f64,
    /// Time in milliseconds within which 95% of them were answered, to within 9%.
    pub p95_millis: f64,
    /// Why the last worker ended or was not started, or why its pod waits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure: String,
}

/// Page of versions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "ListVersionsResponse")]
pub struct VersionList {
    /// Versions, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionMessage>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}
