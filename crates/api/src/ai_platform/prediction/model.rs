//! AI Platform's `Model` resource.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{VersionMessage, VersionRequest};
use crate::ai_platform::is_default;
use crate::ai_platform::notices::Notices;

/// Model in a request.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "ModelRequest")]
pub struct ModelRequest {
    /// Name within the project; required at creation. Letters, digits and `_`, beginning with a letter.
    pub name: String,
    /// Description.
    pub description: String,
    /// Region of the model. No effect.
    pub regions: Vec<String>,
    /// Default version; only its name, to change it.
    pub default_version: Option<Box<VersionRequest>>,
    /// Log of requests. No effect: the server logs all requests.
    pub online_prediction_logging: bool,
    /// Log of what the workers print. No effect: every version has one.
    pub online_prediction_console_logging: bool,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// No effect.
    pub etag: String,
}

/// Model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Model")]
pub struct ModelMessage {
    /// Resource name: `projects/{project}/models/{model}`.
    pub name: String,
    /// Description.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Regions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// Version of predictions that name none. Absent until a version was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_version: Option<Box<VersionMessage>>,
    /// As in the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub online_prediction_logging: bool,
    /// As in the request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub online_prediction_console_logging: bool,
    /// Labels by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Changes with every change of the model; base64.
    pub etag: String,
    /// Tunesmith's extensions.
    pub tunesmith: ModelAdditions,
}

/// Tunesmith's extensions of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelAdditions {
    /// Creation time.
    pub create_time: Timestamp,
    /// Number of versions.
    pub version_count: usize,
    /// Fields of the request without effect; only in the response to the creation.
    #[serde(flatten)]
    pub notices: Notices,
}

/// Page of models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "ListModelsResponse")]
pub struct ModelList {
    /// Models, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelMessage>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// Request of predictions. Further fields are options of the model.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PredictRequest {
    /// Instances in the form that the model takes: numbers, texts, lists or objects.
    #[schemars(extend("items" = std::collections::BTreeMap::from([("description", "Any value.")])))]
    pub instances: Vec<Value>,
}
