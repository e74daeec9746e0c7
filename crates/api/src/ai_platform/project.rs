//! What a project has besides jobs and studies: locations, and the service's own configuration.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AcceleratorType, Int64};

/// Where a service runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Location {
    /// `projects/{project}/locations/{location}`.
    pub name: String,
    /// What can be done there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
}

/// What can be done at a location.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// What.
    #[serde(rename = "type")]
    pub capability_type: CapabilityType,
    /// With which accelerators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available_accelerators: Vec<AcceleratorType>,
}

/// What a service can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CapabilityType {
    /// Training jobs.
    Training,
}

/// Some locations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListLocationsResponse")]
pub struct LocationList {
    /// The locations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// What asks for the next ones; absent if there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// The accounts that the service acts as. This one acts as nobody but its own process, so nothing is told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetConfigResponse {
    /// The account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account: String,
    /// Its project's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_project: Option<Int64>,
    /// More accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ServiceConfig>,
}

/// More accounts that the service acts as.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Config")]
pub struct ServiceConfig {
    /// For TPUs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tpu_service_account: String,
}
