//! Messages about projects: locations, and the configuration of the service.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AcceleratorType, Int64};

/// A location.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Location {
    /// Resource name: `projects/{project}/locations/{location}`.
    pub name: String,
    /// Capabilities of the location.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
}

/// A capability of a location.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// The capability.
    #[serde(rename = "type")]
    pub capability_type: CapabilityType,
    /// Available accelerators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available_accelerators: Vec<AcceleratorType>,
}

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CapabilityType {
    /// Training jobs.
    Training,
}

/// A list of locations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListLocationsResponse")]
pub struct LocationList {
    /// The locations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// Token of the next page; absent on the last page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// The service accounts of the service. This service has none, so all fields are empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetConfigResponse {
    /// The service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account: String,
    /// Project number of the service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_project: Option<Int64>,
    /// Further accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ServiceConfig>,
}

/// Further service accounts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Config")]
pub struct ServiceConfig {
    /// The service account for TPUs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tpu_service_account: String,
}
