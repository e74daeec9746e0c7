//! `getIamPolicy`, `setIamPolicy` and `testIamPermissions` of a job. Policies are kept as they are set.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jobs::Api;
use super::status::ApiError;
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

/// Requests are not authenticated, so whoever asks may do everything; of a job that is not there, nothing.
pub(super) async fn test(api: &Api, id: &JobId, body: Value) -> Result<Value, ApiError> {
    let request: TestRequest = super::body::typed(body)?;
    if let Some(index) = request.permissions.iter().position(|permission| permission.contains('*')) {
        return Err(ApiError::invalid(&format!("permissions[{index}]"), "wildcards are not allowed"));
    }
    match api.jobs.report(id).await {
        Ok(_) if !request.permissions.is_empty() => Ok(json!({ "permissions": request.permissions })),
        Ok(_) | Err(JobsError::Store(StoreError::NotFound { .. })) => Ok(json!({})),
        Err(error) => Err(error.into()),
    }
}
