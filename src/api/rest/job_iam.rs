//! `getIamPolicy`, `setIamPolicy` and `testIamPermissions` of a job. A job's policy gives roles on this job to
//! principals who lack them in its project.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jobs::Api;
use super::status::ApiError;
use crate::access::{Caller, Permission, Role};
use crate::api::ai_platform::is_default;
use crate::domain::{JobChange, JobId};
use crate::service::jobs::JobsError;
use crate::store::StoreError;

/// Most principals in a policy.
const MAX_MEMBERS: usize = 1500;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Policy {
    #[serde(skip_serializing_if = "is_default")]
    version: i32,
    #[serde(skip_serializing_if = "is_default")]
    bindings: Vec<Binding>,
    #[serde(skip_serializing_if = "is_default")]
    audit_configs: Vec<Value>,
    #[serde(skip_serializing_if = "is_default")]
    etag: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Binding {
    role: String,
    members: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SetRequest {
    policy: Option<Policy>,
    /// Only `bindings` and `etag` can be set, whatever it says.
    #[serde(rename = "updateMask")]
    _update_mask: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TestRequest {
    permissions: Vec<String>,
}

pub(super) async fn get(api: &Api, id: &JobId, query: &BTreeMap<String, String>) -> Result<Value, ApiError> {
    if let Some(version) = query.get("options.requestedPolicyVersion")
        && !matches!(version.as_str(), "0" | "1" | "3")
    {
        return Err(ApiError::invalid("options.requestedPolicyVersion", format!("{version} is none of 0, 1 and 3")));
    }
    let job = api.jobs.report(id).await?.job;
    Ok(if job.policy.is_null() { json!({}) } else { job.policy.clone() })
}

pub(super) async fn set(api: &Api, id: &JobId, body: Value) -> Result<Value, ApiError> {
    let request: SetRequest = super::body::typed(body)?;
    let policy = request.policy.ok_or_else(|| ApiError::invalid("policy", "is required"))?;
    if !matches!(policy.version, 0 | 1 | 3) {
        return Err(ApiError::invalid("policy.version", format!("{} is none of 0, 1 and 3", policy.version)));
    }
    for (index, binding) in policy.bindings.iter().enumerate() {
        let field = |name: &str| format!("policy.bindings[{index}].{name}");
        if binding.role.is_empty() {
            return Err(ApiError::invalid(&field("role"), "is required"));
        }
        if binding.members.is_empty() {
            return Err(ApiError::invalid(&field("members"), "at least one member is needed"));
        }
    }
    if policy.bindings.iter().map(|binding| binding.members.len()).sum::<usize>() > MAX_MEMBERS {
        return Err(ApiError::invalid("policy.bindings", format!("more than {MAX_MEMBERS} members")));
    }
    let job = api.jobs.report(id).await?.job;
    let stored: Policy = serde_json::from_value(job.policy.clone()).unwrap_or_default();
    if !policy.etag.is_empty() && policy.etag != stored.etag {
        return Err(StoreError::Refused(crate::domain::TransitionError::Outdated {
            resource: format!("the policy of job {id}"),
        })
        .into());
    }
    let etag = STANDARD.encode((job.revision + 1).to_be_bytes());
    let policy = json!(Policy { etag, ..policy });
    api.jobs.change(id, JobChange::SetPolicy { policy: policy.clone() }).await?;
    Ok(policy)
}

/// Which of the asked permissions the caller has; of a job that is not there, none.
pub(super) async fn test(api: &Api, id: &JobId, caller: &Caller, body: Value) -> Result<Value, ApiError> {
    let request: TestRequest = super::body::typed(body)?;
    if let Some(index) = request.permissions.iter().position(|permission| permission.contains('*')) {
        return Err(ApiError::invalid(&format!("permissions[{index}]"), "wildcards are not allowed"));
    }
    let job = match api.jobs.job(id).await {
        Ok(job) => job,
        Err(JobsError::Store(StoreError::NotFound { .. })) => return Ok(json!({})),
        Err(error) => return Err(error.into()),
    };
    let has = |name: &String| match Permission::named(name) {
        Some(permission) => caller.may(permission, id.parts().0) || allows(&job.policy, caller.principal(), permission),
        // Of permissions that nobody is asked for here, only who may do everything has any.
        None => *caller == Caller::Anonymous,
    };
    let permissions: Vec<String> = request.permissions.into_iter().filter(has).collect();
    Ok(if permissions.is_empty() { json!({}) } else { json!({ "permissions": permissions }) })
}

/// Whether a job's policy gives `principal` a role with `permission`. Conditions are not evaluated: a binding that has
/// one allows nothing.
pub(super) fn allows(policy: &Value, principal: &str, permission: Permission) -> bool {
    let policy: Policy = serde_json::from_value(policy.clone()).unwrap_or_default();
    let is_member = |member: &String| {
        member == principal || member == "allUsers" || (member == "allAuthenticatedUsers" && principal != "anonymous")
    };
    policy.bindings.iter().any(|binding| {
        binding.condition.is_none()
            && binding.role.parse().is_ok_and(|role: Role| role.allows(permission))
            && binding.members.iter().any(is_member)
    })
}

/// The policy of a new job: whoever creates it owns it.
pub(super) fn policy_of_creator(caller: &Caller) -> Value {
    match caller {
        Caller::Anonymous => Value::Null,
        Caller::Known(token) => {
            let members = vec![token.principal.to_string()];
            let owner = Binding { role: Role::JobOwner.to_string(), members, condition: None };
            json!(Policy { bindings: vec![owner], ..Policy::default() })
        }
    }
}
