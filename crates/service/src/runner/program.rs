//! Prepares the program of a job: installs its Python packages, once per job.

use crate::packages::{Packages, PackagesError};
use tunesmith_domain::{JobPlan, ProgramPlan};
use tunesmith_packages::{
    EnvironmentRequest, Environments, Package, PackageError, PackageSource, PreparedEnvironment, ProgramUser,
    SourceFolder, Step,
};

/// Replaces the files of uploaded packages in `plan`, which may be those of another server, by files of this one.
///
/// # Errors
/// As [`Packages::fetch`].
pub(super) async fn fetch_packages(packages: &Packages, plan: &mut JobPlan) -> Result<(), PackagesError> {
    let ProgramPlan::PythonModule { package_uris, .. } = &mut plan.program else { return Ok(()) };
    for uri in package_uris {
        *uri = packages.local_path(uri).await?;
    }
    Ok(())
}

/// Installs the packages of `plan`, and calls `observer` before each step that may take long. Returns `None` if it has none.
///
/// # Errors
/// [`PackageError`]; the job then fails.
pub(super) async fn prepare(
    environments: &Environments,
    plan: &JobPlan,
    user: Option<ProgramUser>,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Option<PreparedEnvironment>, PackageError> {
    let ProgramPlan::PythonModule { package_uris, package_path, requirements, .. } = &plan.program else {
        return Ok(None);
    };
    let mut packages = Vec::with_capacity(package_uris.len() + 1);
    for uri in package_uris {
        packages.push(Package::Archive(uri.parse::<PackageSource>()?));
    }
    if let Some(path) = package_path {
        packages.push(Package::Folder(SourceFolder::new(path)?));
    }
    let request =
        EnvironmentRequest { packages, requirements: requirements.clone(), user, python: plan.machines.python.clone() };
    environments.prepare_observed(&request, observer).await.map(Some)
}
