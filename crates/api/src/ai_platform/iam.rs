//! IAM policies of jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::rpc::FieldViolation;

/// Maximum members per policy.
const MAX_MEMBERS: usize = 1500;
/// Maximum groups per policy.
const MAX_GROUPS: usize = 250;

/// IAM policy: roles of principals on a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Policy")]
pub struct IamPolicy {
    /// Format version: 0, 1 or 3.
    #[serde(skip_serializing_if = "is_default")]
    pub version: i32,
    /// Roles, each with its members.
    #[serde(skip_serializing_if = "is_default")]
    pub bindings: Vec<Binding>,
    /// Audit log configuration. Rejected, since it would have no effect.
    #[serde(skip_serializing_if = "is_default")]
    pub audit_configs: Vec<AuditConfig>,
    /// Changes with every change of the policy; base64.
    #[serde(skip_serializing_if = "is_default")]
    pub etag: String,
}

/// A role and its members.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Binding {
    /// Name of the role.
    pub role: String,
    /// Principals with the role, at least one.
    pub members: Vec<String>,
    /// Condition of the binding. Rejected, since conditions are not evaluated. A binding stored with a condition by an
    /// earlier version grants nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expression>,
}

/// Condition of a binding.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Expr")]
pub struct Expression {
    /// Condition in the Common Expression Language.
    #[serde(skip_serializing_if = "is_default")]
    pub expression: String,
    /// Title.
    #[serde(skip_serializing_if = "is_default")]
    pub title: String,
    /// Description.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// Origin of the expression, such as a file name and position.
    #[serde(skip_serializing_if = "is_default")]
    pub location: String,
}

/// Audit configuration of a service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditConfig {
    /// Name of the service.
    #[serde(skip_serializing_if = "is_default")]
    pub service: String,
    /// Logged kinds of access.
    #[serde(skip_serializing_if = "is_default")]
    pub audit_log_configs: Vec<AuditLogConfig>,
}

/// Logged kind of access.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditLogConfig {
    /// Kind of access.
    #[serde(skip_serializing_if = "is_default")]
    pub log_type: LogType,
    /// Principals whose access is not logged.
    #[serde(skip_serializing_if = "is_default")]
    pub exempted_members: Vec<String>,
}

/// Kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LogType {
    /// Unspecified.
    #[default]
    LogTypeUnspecified,
    /// Reads of administrative data, such as policies.
    AdminRead,
    /// Writes of data.
    DataWrite,
    /// Reads of data.
    DataRead,
}

/// Request to set a policy.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SetIamPolicyRequest {
    /// Policy; required.
    pub policy: Option<IamPolicy>,
    /// Fields to set: `bindings`, optionally with `etag` and `version`. Default `bindings,etag`.
    pub update_mask: String,
}

/// Request to test permissions.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestIamPermissionsRequest {
    /// Permissions, without wildcards.
    pub permissions: Vec<String>,
}

/// Tested permissions that the caller has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct TestIamPermissionsResponse {
    /// Permissions that the caller has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}

/// Checks the version of a policy's format.
///
/// # Errors
/// If `version` does not exist.
pub fn check_version(field: &str, version: i32) -> Result<(), FieldViolation> {
    let exists = matches!(version, 0 | 1 | 3);
    if exists { Ok(()) } else { Err(FieldViolation::new(field, format!("{version} is not 0, 1 or 3"))) }
}

impl SetIamPolicyRequest {
    /// Validates the policy to set.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn into_policy(self) -> Result<IamPolicy, FieldViolation> {
        let policy = self.policy.ok_or_else(|| FieldViolation::new("policy", "is required"))?;
        check_version("policy.version", policy.version)?;
        check_update_mask(&self.update_mask)?;
        let refuse = |field: &str, description: &str| Err(FieldViolation::new(field, description));
        if !policy.audit_configs.is_empty() {
            let text =
                "is not supported: the audit logs of this server record every change, and reads with --data-access-log";
            return refuse("policy.auditConfigs", text);
        }
        for (index, binding) in policy.bindings.iter().enumerate() {
            let field = |name: &str| format!("policy.bindings[{index}].{name}");
            if binding.role.is_empty() {
                return refuse(&field("role"), "is required");
            }
            if binding.members.is_empty() {
                return refuse(&field("members"), "at least one member is needed");
            }
            if binding.condition.is_some() {
                let text =
                    "is not supported: conditions are not evaluated; grant the role without a condition, or not at all";
                return refuse(&field("condition"), text);
            }
        }
        let members = || policy.bindings.iter().flat_map(|binding| &binding.members);
        if members().count() > MAX_MEMBERS {
            return refuse("policy.bindings", &format!("more than {MAX_MEMBERS} members"));
        }
        if members().filter(|member| member.starts_with("group:")).count() > MAX_GROUPS {
            return refuse("policy.bindings", &format!("more than {MAX_GROUPS} groups"));
        }
        Ok(policy)
    }
}

/// Checks the update mask: `bindings`, optionally with `etag` and `version`.
fn check_update_mask(mask: &str) -> Result<(), FieldViolation> {
    let fields: Vec<&str> = mask.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    if let Some(other) = fields.iter().find(|field| !matches!(**field, "bindings" | "etag" | "version")) {
        let text = format!("{other:?} cannot be set; bindings, etag and version can");
        return Err(FieldViolation::new("updateMask", text));
    }
    if !fields.is_empty() && !fields.contains(&"bindings") {
        return Err(FieldViolation::new("updateMask", "must contain bindings, the default"));
    }
    Ok(())
}
