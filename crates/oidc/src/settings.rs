use std::collections::BTreeMap;

use reqwest::Url;
use tunesmith_access::Grant;

pub const DEFAULT_PRINCIPAL_CLAIM: &str = "email";
pub const DEFAULT_GROUPS_CLAIM: &str = "groups";

/// Provider, this client's registration with it, and roles by group.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Issuer, exactly as the provider states it.
    pub issuer: String,
    pub client_id: String,
    /// Secret of a confidential client; `None` for a public one.
    pub client_secret: Option<String>,
    /// Scopes beside `openid`.
    pub scopes: Vec<String>,
    /// Claim that names the principal, as `user:VALUE`.
    pub principal_claim: String,
    /// Claim with the groups.
    pub groups_claim: String,
    pub group_roles: BTreeMap<String, Vec<Grant>>,
    /// Roles of everyone who can sign in.
    pub roles: Vec<Grant>,
    /// Address to which the provider sends browsers back.
    pub redirect: Url,
}

impl Settings {
    /// Roles of a member of `groups`, without repetition.
    pub(crate) fn grants<'a>(&self, groups: impl IntoIterator<Item = &'a str>) -> Vec<Grant> {
        let of_groups = groups.into_iter().filter_map(|group| self.group_roles.get(group)).flatten();
        let mut grants: Vec<Grant> = Vec::new();
        for grant in self.roles.iter().chain(of_groups) {
            if !grants.contains(grant) {
                grants.push(grant.clone());
            }
        }
        grants
    }
}
