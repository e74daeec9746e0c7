//! Access policies of jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Who may do what with a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Policy")]
pub struct IamPolicy {
    /// 0, 1 or 3.
    #[serde(skip_serializing_if = "is_default")]
    pub version: i32,
    /// Roles, and who has them.
    #[serde(skip_serializing_if = "is_default")]
    pub bindings: Vec<Binding>,
    /// What is logged.
    #[serde(skip_serializing_if = "is_default")]
    pub audit_configs: Vec<AuditConfig>,
    /// Changes with every change of the policy, in base64.
    #[serde(skip_serializing_if = "is_default")]
    pub etag: String,
}

/// A role, and who has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Binding {
    /// The role.
    pub role: String,
    /// Who has it, at least one.
    pub members: Vec<String>,
    /// Under which condition. It is kept, and has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expression>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Expr")]
pub struct Expression {
    /// In the Common Expression Language.
    #[serde(skip_serializing_if = "is_default")]
    pub expression: String,
    /// What it is called.
    #[serde(skip_serializing_if = "is_default")]
    pub title: String,
    /// What it is for.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// Where it comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub location: String,
}

/// What is logged of the use of a service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditConfig {
    /// The service.
    #[serde(skip_serializing_if = "is_default")]
    pub service: String,
    /// What is logged.
    #[serde(skip_serializing_if = "is_default")]
    pub audit_log_configs: Vec<AuditLogConfig>,
}

/// A kind of use that is logged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditLogConfig {
    /// The kind.
    #[serde(skip_serializing_if = "is_default")]
    pub log_type: LogType,
    /// Who is left out.
    #[serde(skip_serializing_if = "is_default")]
    pub exempted_members: Vec<String>,
}

/// A kind of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LogType {
    /// None.
    #[default]
    LogTypeUnspecified,
    /// Reading policies.
    AdminRead,
    /// Writing data.
    DataWrite,
    /// Reading data.
    DataRead,
}

/// A policy to be set.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SetIamPolicyRequest {
    /// The policy; required.
    pub policy: Option<IamPolicy>,
    /// Which of its fields are set. Always taken as `bindings, etag`, the default.
    pub update_mask: String,
}

/// Permissions that somebody may have.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestIamPermissionsRequest {
    /// The permissions; wildcards are not allowed.
    pub permissions: Vec<String>,
}

/// Those permissions that the caller has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct TestIamPermissionsResponse {
    /// The permissions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}
