//! Packages of projects. AI Platform keeps packages in buckets.

use serde::{Deserialize, Serialize};

use super::Int64;

/// An uploaded package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadedPackage {
    /// `projects/{project}/packages/{sha256}/{file name}`.
    pub name: String,
    /// The URI for `packageUris`.
    pub uri: String,
    pub size_bytes: Int64,
}
