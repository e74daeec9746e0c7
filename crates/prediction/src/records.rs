//! Models, versions and operations as stored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tunesmith_domain::{Code, Document, Refusal};

use crate::container_spec::Container;
use crate::runner::LoadReport;

/// Maximum length of the name of a model or version; of AI Platform, from memory.
pub const MAX_NAME: usize = 128;

/// Maximum number of versions of a model. A guess, which bounds the record of a model.
pub const MAX_VERSIONS: usize = 100;

/// A model with its versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub project: String,
    /// Name within the project.
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub regions: Vec<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub online_prediction_logging: bool,
    #[serde(default)]
    pub online_prediction_console_logging: bool,
    pub default_version: Option<String>,
    pub create_time: Timestamp,
    /// Raised by every change.
    pub revision: u64,
    /// IAM policy; null if none was set.
    #[serde(default)]
    pub policy: Document,
    /// Whether it is being removed, and must not be shown.
    #[serde(default)]
    pub(crate) is_deleted: bool,
    /// In the order of their creation.
    #[serde(default)]
    pub versions: Vec<Version>,
}

/// A version of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub name: String,
    #[serde(flatten)]
    pub spec: VersionSpec,
    pub state: VersionState,
    /// Reason of the state `FAILED`.
    #[serde(default)]
    pub error_message: String,
    pub create_time: Timestamp,
    pub last_use_time: Option<Timestamp>,
    /// Name of its folder, never used again.
    pub uid: String,
    /// ID of the operation that creates it.
    pub operation: String,
    /// Report on the load at creation.
    pub report: Option<LoadReport>,
}

/// Specification of a version, resolved for this server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VersionSpec {
    pub description: String,
    pub labels: BTreeMap<String, String>,
    pub deployment_uri: String,
    pub framework: Framework,
    pub runtime_version: String,
    pub python_version: String,
    pub machine_type: String,
    pub package_uris: Vec<String>,
    pub prediction_class: String,
    pub scaling: Scaling,
    /// Replaces the interpreter.
    pub container: Option<Container>,
    /// Memory of a worker; `None` for the default of the server.
    pub memory_bytes: Option<u64>,
    /// Thousandths of processors of a worker; `None` for the default of the server.
    pub milli_cpus: Option<u32>,
    /// Interpreter of the workers; `None` for `python3` on the `PATH`.
    pub python: Option<PathBuf>,
    /// Image of workers in pods; `None` for the default of the server.
    pub image: Option<String>,
    /// Additional pip requirements.
    pub requirements: Vec<String>,
    /// Fields without effect.
    pub notices: Vec<FieldNotice>,
    /// Job whose program has left the files, if the version was created from one.
    pub source: Option<ModelSource>,
}

/// Program that has left the files of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSource {
    /// Name of the job within the project.
    pub job: String,
    /// `None` for a job without hyperparameters.
    pub trial: Option<u64>,
}

/// A field of a request without effect, or with an unexpected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldNotice {
    pub field: String,
    pub description: String,
}

/// Number of workers of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scaling {
    Manual { nodes: usize },
    Automatic { min_nodes: usize, max_nodes: Option<usize> },
}

impl Default for Scaling {
    fn default() -> Self {
        Self::Automatic { min_nodes: 0, max_nodes: None }
    }
}

impl Scaling {
    pub fn min_nodes(self) -> usize {
        match self {
            Self::Manual { nodes } => nodes,
            Self::Automatic { min_nodes, .. } => min_nodes,
        }
    }

    /// Maximum number of workers on a server with `limit` workers of all versions.
    pub fn max_nodes(self, limit: usize) -> usize {
        match self {
            Self::Manual { nodes } => nodes,
            Self::Automatic { min_nodes, max_nodes } => max_nodes.unwrap_or(limit).max(min_nodes).max(1),
        }
    }
}

/// Framework of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Framework {
    /// Guessed from the files.
    #[default]
    FrameworkUnspecified,
    Tensorflow,
    ScikitLearn,
    Xgboost,
}

impl Framework {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_unspecified(&self) -> bool {
        *self == Self::FrameworkUnspecified
    }
}

/// State of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VersionState {
    Creating,
    Ready,
    Failed,
    Deleting,
}

impl VersionState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Ready => "READY",
            Self::Failed => "FAILED",
            Self::Deleting => "DELETING",
        }
    }
}

/// A change of a model or version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub project: String,
    /// ID within the project.
    pub id: String,
    pub kind: OperationKind,
    pub model: String,
    /// The version that the operation is about, as it was when the operation began.
    pub version: Option<Version>,
    pub create_time: Timestamp,
    pub end_time: Option<Timestamp>,
    /// Server that runs it.
    #[serde(default)]
    pub(crate) owner: String,
    #[serde(default)]
    pub is_cancellation_requested: bool,
    /// `None` while the operation runs.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationKind {
    CreateVersion,
    DeleteVersion,
    DeleteModel,
    UpdateModel,
    UpdateVersion,
}

impl OperationKind {
    /// First part of the ID.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::CreateVersion => "create",
            Self::DeleteVersion | Self::DeleteModel => "delete",
            Self::UpdateModel | Self::UpdateVersion => "update",
        }
    }
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Model(Box<Model>),
    Version(Box<Version>),
    Empty,
    /// Code of `google.rpc`, and a text.
    Failed {
        code: i32,
        message: String,
    },
}

impl Model {
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn version_mut(&mut self, name: &str) -> Option<&mut Version> {
        self.versions.iter_mut().find(|version| version.name == name)
    }

    /// `projects/{project}/models/{model}`.
    pub fn resource_name(&self) -> String {
        format!("projects/{}/models/{}", self.project, self.name)
    }
}

/// Checks the name of a model or version; `field` is its place in the request.
///
/// # Errors
/// [`Refusal`] unless it has letters, digits and `_`, starts with a letter, and is at most [`MAX_NAME`] long.
pub fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    if is_plain && starts && name.len() <= MAX_NAME {
        return Ok(());
    }
    let text =
        format!("{name:?} is not a name; allowed: letters, digits and _, beginning with a letter, at most {MAX_NAME}");
    Err(Refusal::invalid(field, text))
}

pub(crate) fn failed(code: Code, message: impl Into<String>) -> Outcome {
    Outcome::Failed { code: code.number(), message: message.into() }
}
