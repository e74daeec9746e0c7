//! The IAM policy of a job: what it allows, and the policy of a new job.

use serde::Deserialize;
use serde_json::{Value, json};

use tunesmith_access::{Caller, Permission, Role};
use tunesmith_api::ai_platform::iam::{Binding, IamPolicy};

/// Whether a job's policy grants `principal` a role with `permission`. Conditions are not evaluated: a binding with a
/// condition allows nothing.
pub(super) fn allows(policy: &Value, principal: &str, permission: Permission) -> bool {
    let policy = IamPolicy::deserialize(policy).unwrap_or_default();
    let is_member = |member: &String| {
        member == principal || member == "allUsers" || (member == "allAuthenticatedUsers" && principal != "anonymous")
    };
    policy.bindings.iter().any(|binding| {
        binding.condition.is_none()
            && binding.role.parse().is_ok_and(|role: Role| role.allows(permission))
            && binding.members.iter().any(is_member)
    })
}

/// The roles that a job's policy grants, each with its members. A binding with a condition grants nothing.
pub(super) fn bindings(policy: &Value) -> Vec<(String, Vec<String>)> {
    let policy = IamPolicy::deserialize(policy).unwrap_or_default();
    let granted = policy.bindings.into_iter().filter(|binding| binding.condition.is_none());
    granted.map(|binding| (binding.role, binding.members)).collect()
}

/// The principal of a new job; `None` without access control.
pub(super) fn principal(caller: &Caller) -> Option<String> {
    match caller {
        Caller::Anonymous => None,
        Caller::Authenticated(token) => Some(token.principal.to_string()),
    }
}

/// The policy of a new job: its creator has the role of owner.
pub(super) fn policy_of_creator(caller: &Caller) -> Value {
    match caller {
        Caller::Anonymous => Value::Null,
        Caller::Authenticated(token) => {
            let members = vec![token.principal.to_string()];
            let owner = Binding { role: Role::JobOwner.to_string(), members, condition: None };
            json!(IamPolicy { bindings: vec![owner], ..IamPolicy::default() })
        }
    }
}
