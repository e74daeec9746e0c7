//! `google.longrunning.Operation` of models and versions.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModelMessage, VersionMessage};
use crate::ai_platform::rpc::Status;

/// Long-running change of a model or version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ModelOperation")]
pub struct ModelOperation {
    /// Resource name: `projects/{project}/operations/{operation}`.
    pub name: String,
    /// Request of the operation.
    pub metadata: ModelOperationMetadata,
    /// Whether the operation has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Error of a failed operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Status>,
    /// Response of a successful operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ModelOperationResponse>,
}

/// Request of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelOperationMetadata {
    /// Name of the message.
    #[serde(rename = "@type")]
    pub type_name: String,
    /// Time of the request.
    pub create_time: Timestamp,
    /// Start time.
    pub start_time: Timestamp,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Whether its cancellation was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cancellation_requested: bool,
    /// Kind of the change.
    pub operation_type: ModelOperationKind,
    /// Resource name of the model.
    pub model_name: String,
    /// Version, as it was at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<VersionMessage>>,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "OperationType")]
pub enum ModelOperationKind {
    /// A version is created.
    CreateVersion,
    /// A version is deleted.
    DeleteVersion,
    /// A model is deleted.
    DeleteModel,
    /// A model is changed.
    UpdateModel,
    /// A version is changed.
    UpdateVersion,
}

/// Response of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "@type")]
pub enum ModelOperationResponse {
    /// The changed model.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.Model")]
    Model(Box<ModelMessage>),
    /// The created or changed version.
    #[serde(rename = "type.googleapis.com/google.cloud.ml.v1.Version")]
    Version(Box<VersionMessage>),
    /// Nothing, after a deletion.
    #[serde(rename = "type.googleapis.com/google.protobuf.Empty")]
    Empty {},
}

impl ModelOperationMetadata {
    /// Value of `@type`.
    pub const TYPE: &str = "type.googleapis.com/google.cloud.ml.v1.OperationMetadata";
}

/// List of operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "ListOperationsResponse")]
pub struct ModelOperationList {
    /// Operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<ModelOperation>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}
