//! Custom containers of versions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ai_platform::is_default;

/// Container that answers predictions over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "ContainerSpec")]
pub struct ContainerSpec {
    /// Image, such as `registry.example.com/models/iris:3`.
    pub image: String,
    /// Replaces the entry point of the image. `$(NAME)` stands for a variable, `$$(NAME)` for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments to the entry point, with variables as in `command`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables. Values may contain earlier ones, and those of the service (`AIP_...`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Port of the HTTP server; 8080 by default. Only the first one has an effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
}

/// Environment variable of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EnvVar {
    /// Letters, digits and `_`, without a digit at the start and the prefix `AIP_`.
    pub name: String,
    /// Value, which everyone may read who may read the version.
    #[serde(skip_serializing_if = "is_default")]
    pub value: String,
}

/// Port of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerPort {
    /// From 1 to 65535.
    pub container_port: i32,
}

/// Paths of a container's HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RouteMap {
    /// Path that predictions are posted to; `/v1/models/MODEL/versions/VERSION:predict` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub predict: String,
    /// Path that answers with status 200 once the model can predict; `/v1/models/MODEL/versions/VERSION` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub health: String,
}
