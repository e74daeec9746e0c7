use serde::Deserialize;
use tunesmith_access::{Permission, Role};
use tunesmith_domain::{Document, JobId};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    bindings: Vec<Binding>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Binding {
    role: String,
    members: Vec<String>,
    /// Conditions are not evaluated: a conditional binding grants nothing.
    condition: Option<Document>,
}

/// Resource with an IAM policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyResource {
    Job(JobId),
    Model { project: String, name: String },
}

/// Roles granted by a job's `policy`, with their members.
pub fn bindings(policy: &Document) -> Vec<(String, Vec<String>)> {
    let policy = Policy::deserialize(policy).unwrap_or_default();
    let granted = policy.bindings.into_iter().filter(|binding| binding.condition.is_none());
    granted.map(|binding| (binding.role, binding.members)).collect()
}

pub fn allows(policy: &Document, principal: &str, permission: Permission) -> bool {
    let is_member = |member: &String| {
        member == principal || member == "allUsers" || (member == "allAuthenticatedUsers" && principal != "anonymous")
    };
    bindings(policy).iter().any(|(role, members)| {
        role.parse().is_ok_and(|role: Role| role.allows(permission)) && members.iter().any(is_member)
    })
}
