use std::fmt;
use std::str::FromStr;

/// Defines [`Permission`] with published names.
macro_rules! permissions {
    ($($id:ident $name:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Permission {
            $(#[doc = concat!("`", $name, "`")] $id,)*
        }

        impl Permission {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$id),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }
        }
    };
}

permissions! {
    JobsCreate "ml.jobs.create";
    JobsGet "ml.jobs.get";
    JobsList "ml.jobs.list";
    JobsCancel "ml.jobs.cancel";
    JobsUpdate "ml.jobs.update";
    JobsGetIamPolicy "ml.jobs.getIamPolicy";
    JobsSetIamPolicy "ml.jobs.setIamPolicy";
    ModelsCreate "ml.models.create";
    ModelsDelete "ml.models.delete";
    ModelsGet "ml.models.get";
    ModelsGetIamPolicy "ml.models.getIamPolicy";
    ModelsList "ml.models.list";
    ModelsPredict "ml.models.predict";
    ModelsSetIamPolicy "ml.models.setIamPolicy";
    ModelsUpdate "ml.models.update";
    VersionsCreate "ml.versions.create";
    VersionsDelete "ml.versions.delete";
    VersionsGet "ml.versions.get";
    VersionsList "ml.versions.list";
    VersionsPredict "ml.versions.predict";
    VersionsUpdate "ml.versions.update";
    LocationsGet "ml.locations.get";
    LocationsList "ml.locations.list";
    OperationsGet "ml.operations.get";
    OperationsList "ml.operations.list";
    OperationsCancel "ml.operations.cancel";
    ProjectsGetConfig "ml.projects.getConfig";
    StudiesCreate "ml.studies.create";
    StudiesGet "ml.studies.get";
    StudiesList "ml.studies.list";
    StudiesDelete "ml.studies.delete";
    TrialsCreate "ml.trials.create";
    TrialsGet "ml.trials.get";
    TrialsList "ml.trials.list";
    TrialsUpdate "ml.trials.update";
    TrialsDelete "ml.trials.delete";
    TokensList "tunesmith.tokens.list";
    TokensCreate "tunesmith.tokens.create";
    TokensDelete "tunesmith.tokens.delete";
}

impl Permission {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.as_str() == name)
    }

    fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::JobsGet
                | Self::JobsList
                | Self::ModelsGet
                | Self::ModelsList
                | Self::VersionsGet
                | Self::VersionsList
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

    fn applies_to_job(self) -> bool {
        matches!(
            self,
            Self::JobsGet | Self::JobsCancel | Self::JobsUpdate | Self::JobsGetIamPolicy | Self::JobsSetIamPolicy
        )
    }
}

impl Permission {
    fn applies_to_model(self) -> bool {
        matches!(
            self,
            Self::ModelsDelete
                | Self::ModelsGet
                | Self::ModelsGetIamPolicy
                | Self::ModelsPredict
                | Self::ModelsSetIamPolicy
                | Self::ModelsUpdate
                | Self::VersionsCreate
                | Self::VersionsDelete
                | Self::VersionsGet
                | Self::VersionsList
                | Self::VersionsPredict
                | Self::VersionsUpdate
        )
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Set of permissions in a project or, for [`Role::JobOwner`], on one job; for [`Role::ModelOwner`] and
/// [`Role::ModelUser`], on one model.
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
    /// `roles/ml.modelOwner`: all permissions on one model and its versions. The creator of a model has this role.
    ModelOwner,
    /// `roles/ml.modelUser`: reads one model and its versions, and predicts with them.
    ModelUser,
}

impl Role {
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Developer, Self::Viewer, Self::JobOwner, Self::ModelOwner, Self::ModelUser];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "roles/ml.admin",
            Self::Developer => "roles/ml.developer",
            Self::Viewer => "roles/ml.viewer",
            Self::JobOwner => "roles/ml.jobOwner",
            Self::ModelOwner => "roles/ml.modelOwner",
            Self::ModelUser => "roles/ml.modelUser",
        }
    }

    pub fn allows(self, permission: Permission) -> bool {
        match self {
            Self::Admin => true,
            Self::Developer => {
                permission.is_read_only()
                    || matches!(
                        permission,
                        Permission::JobsCreate
                            | Permission::JobsGetIamPolicy
                            | Permission::ModelsCreate
                            | Permission::ModelsGetIamPolicy
                            | Permission::ModelsPredict
                            | Permission::VersionsPredict
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
            Self::ModelOwner => permission.applies_to_model(),
            Self::ModelUser => {
                permission.applies_to_model()
                    && (permission.is_read_only()
                        || matches!(permission, Permission::ModelsPredict | Permission::VersionsPredict))
            }
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{role:?} is not a role: use ml.admin, ml.developer, ml.viewer, ml.jobOwner, ml.modelOwner or ml.modelUser")]
pub struct UnknownRole {
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
        assert_eq!(allowed(Role::Admin).filter(|permission| permission.as_str().starts_with("ml.")).count(), 36);
        assert_eq!(allowed(Role::Admin).count(), Permission::ALL.len());
        assert!(allowed(Role::Viewer).all(|permission| {
            let name = permission.as_str();
            name.ends_with("get") || name.ends_with("list") || name.ends_with("getConfig")
        }));
        let job_owner: Vec<&str> = allowed(Role::JobOwner).map(Permission::as_str).collect();
        let of_a_job =
            ["ml.jobs.get", "ml.jobs.cancel", "ml.jobs.update", "ml.jobs.getIamPolicy", "ml.jobs.setIamPolicy"];
        assert_eq!(job_owner, of_a_job);
        let model_user: Vec<&str> = allowed(Role::ModelUser).map(Permission::as_str).collect();
        let of_a_model =
            ["ml.models.get", "ml.models.predict", "ml.versions.get", "ml.versions.list", "ml.versions.predict"];
        assert_eq!(model_user, of_a_model);
        assert_eq!(allowed(Role::ModelOwner).count(), 12);
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
        assert_eq!(Permission::named("ml.models.estimate"), None);
    }
}
