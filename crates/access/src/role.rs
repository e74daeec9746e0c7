//! AI Platform's permissions and roles.

use std::fmt;
use std::str::FromStr;

/// A permission of AI Platform's access control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// `ml.jobs.create`
    JobsCreate,
    /// `ml.jobs.get`
    JobsGet,
    /// `ml.jobs.list`
    JobsList,
    /// `ml.jobs.cancel`
    JobsCancel,
    /// `ml.jobs.update`
    JobsUpdate,
    /// `ml.jobs.getIamPolicy`
    JobsGetIamPolicy,
    /// `ml.jobs.setIamPolicy`
    JobsSetIamPolicy,
    /// `ml.locations.get`
    LocationsGet,
    /// `ml.locations.list`
    LocationsList,
    /// `ml.operations.get`
    OperationsGet,
    /// `ml.operations.list`
    OperationsList,
    /// `ml.operations.cancel`
    OperationsCancel,
    /// `ml.projects.getConfig`
    ProjectsGetConfig,
    /// `ml.studies.create`
    StudiesCreate,
    /// `ml.studies.get`
    StudiesGet,
    /// `ml.studies.list`
    StudiesList,
    /// `ml.studies.delete`
    StudiesDelete,
    /// `ml.trials.create`
    TrialsCreate,
    /// `ml.trials.get`
    TrialsGet,
    /// `ml.trials.list`
    TrialsList,
    /// `ml.trials.update`
    TrialsUpdate,
    /// `ml.trials.delete`
    TrialsDelete,
}

impl Permission {
    /// The published name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobsCreate => "ml.jobs.create",
            Self::JobsGet => "ml.jobs.get",
            Self::JobsList => "ml.jobs.list",
            Self::JobsCancel => "ml.jobs.cancel",
            Self::JobsUpdate => "ml.jobs.update",
            Self::JobsGetIamPolicy => "ml.jobs.getIamPolicy",
            Self::JobsSetIamPolicy => "ml.jobs.setIamPolicy",
            Self::LocationsGet => "ml.locations.get",
            Self::LocationsList => "ml.locations.list",
            Self::OperationsGet => "ml.operations.get",
            Self::OperationsList => "ml.operations.list",
            Self::OperationsCancel => "ml.operations.cancel",
            Self::ProjectsGetConfig => "ml.projects.getConfig",
            Self::StudiesCreate => "ml.studies.create",
            Self::StudiesGet => "ml.studies.get",
            Self::StudiesList => "ml.studies.list",
            Self::StudiesDelete => "ml.studies.delete",
            Self::TrialsCreate => "ml.trials.create",
            Self::TrialsGet => "ml.trials.get",
            Self::TrialsList => "ml.trials.list",
            Self::TrialsUpdate => "ml.trials.update",
            Self::TrialsDelete => "ml.trials.delete",
        }
    }

    /// All permissions.
    pub const ALL: [Self; 22] = [
        Self::JobsCreate,
        Self::JobsGet,
        Self::JobsList,
        Self::JobsCancel,
        Self::JobsUpdate,
        Self::JobsGetIamPolicy,
        Self::JobsSetIamPolicy,
        Self::LocationsGet,
        Self::LocationsList,
        Self::OperationsGet,
        Self::OperationsList,
        Self::OperationsCancel,
        Self::ProjectsGetConfig,
        Self::StudiesCreate,
        Self::StudiesGet,
        Self::StudiesList,
        Self::StudiesDelete,
        Self::TrialsCreate,
        Self::TrialsGet,
        Self::TrialsList,
        Self::TrialsUpdate,
        Self::TrialsDelete,
    ];

    /// Returns the permission with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.as_str() == name)
    }

    /// Whether the permission is read-only.
    fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::JobsGet
                | Self::JobsList
                | Self::LocationsGet
                | Self::LocationsList
                | Self::OperationsGet
                | Self::OperationsList
                | Self::ProjectsGetConfig
                | Self::StudiesGet
                | Self::StudiesList
                | Self::TrialsGet
                | Self::TrialsList
        )
    }

    /// Whether the permission applies to one job.
    fn applies_to_job(self) -> bool {
        matches!(
            self,
            Self::JobsGet | Self::JobsCancel | Self::JobsUpdate | Self::JobsGetIamPolicy | Self::JobsSetIamPolicy
        )
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of permissions in a project or, for [`Role::JobOwner`], on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `roles/ml.admin`: all permissions.
    Admin,
    /// `roles/ml.developer`: creates jobs, studies and trials, and reads everything. Controls its own jobs through
    /// [`Role::JobOwner`].
    Developer,
    /// `roles/ml.viewer`: reads everything.
    Viewer,
    /// `roles/ml.jobOwner`: all permissions on one job. The creator of a job has this role.
    JobOwner,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Developer, Self::Viewer, Self::JobOwner];

    /// The published name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "roles/ml.admin",
            Self::Developer => "roles/ml.developer",
            Self::Viewer => "roles/ml.viewer",
            Self::JobOwner => "roles/ml.jobOwner",
        }
    }

    /// Whether the role includes `permission`.
    pub fn allows(self, permission: Permission) -> bool {
        match self {
            Self::Admin => true,
            Self::Developer => {
                permission.is_read_only()
                    || matches!(
                        permission,
                        Permission::JobsCreate
                            | Permission::JobsGetIamPolicy
                            | Permission::OperationsCancel
                            | Permission::StudiesCreate
                            | Permission::StudiesDelete
                            | Permission::TrialsCreate
                            | Permission::TrialsUpdate
                            | Permission::TrialsDelete
                    )
            }
            Self::Viewer => permission.is_read_only(),
            Self::JobOwner => permission.applies_to_job(),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of parsing a [`Role`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{role:?} is not a role: use ml.admin, ml.developer, ml.viewer or ml.jobOwner")]
pub struct UnknownRole {
    /// The text.
    pub role: String,
}

impl FromStr for Role {
    type Err = UnknownRole;

    /// Parses the published name, with or without `roles/`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.strip_prefix("roles/").unwrap_or(text);
        let role = Self::ALL.into_iter().find(|role| role.as_str().strip_prefix("roles/") == Some(name));
        role.ok_or_else(|| UnknownRole { role: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Permission, Role};

    #[test]
    fn roles_have_the_published_permissions() {
        let allowed = |role: Role| Permission::ALL.into_iter().filter(move |permission| role.allows(*permission));
        assert_eq!(allowed(Role::Admin).count(), 22);
        assert!(allowed(Role::Viewer).all(|permission| {
            let name = permission.as_str();
            name.ends_with("get") || name.ends_with("list") || name.ends_with("getConfig")
        }));
        let job_owner: Vec<&str> = allowed(Role::JobOwner).map(Permission::as_str).collect();
        let of_a_job =
            ["ml.jobs.get", "ml.jobs.cancel", "ml.jobs.update", "ml.jobs.getIamPolicy", "ml.jobs.setIamPolicy"];
        assert_eq!(job_owner, of_a_job);
        for refused in [Permission::JobsCancel, Permission::JobsUpdate, Permission::JobsSetIamPolicy] {
            assert!(!Role::Developer.allows(refused), "{refused}");
        }
        assert!(allowed(Role::Viewer).all(|permission| Role::Developer.allows(permission)));
    }

    #[test]
    fn names_are_parsed_back() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!("ml.viewer".parse(), Ok(Role::Viewer));
        assert!("roles/owner".parse::<Role>().is_err());
        for permission in Permission::ALL {
            assert_eq!(Permission::named(permission.as_str()), Some(permission));
        }
        assert_eq!(Permission::named("ml.models.create"), None);
    }
}
