//! Messages about projects: locations, and the service's configuration.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AcceleratorType, Int64};

/// Location of a project.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Location {
    /// Resource name: `projects/{project}/locations/{location}`.
    pub name: String,
    /// Capabilities of the location.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
}

/// Capability of a location.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// Type of the capability.
    #[serde(rename = "type")]
    pub capability_type: CapabilityType,
    /// Available accelerators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available_accelerators: Vec<AcceleratorType>,
}

/// Type of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CapabilityType {
    /// Training jobs.
    Training,
    /// Predictions of versions of models.
    OnlinePrediction,
}

/// List of locations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListLocationsResponse")]
pub struct LocationList {
    /// Locations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// Service accounts of the service. There are none, so all fields are empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetConfigResponse {
    /// Service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account: String,
    /// Project number of the service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_project: Option<Int64>,
    /// Additional accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ServiceConfig>,
}

/// Additional service accounts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Config")]
pub struct ServiceConfig {
    /// Service account for TPUs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tpu_service_account: String,
}
