//! Prepares the program of a job: installs its Python packages, once per job.

use std::path::Path;

use crate::allowed_folders::{AllowedFolders, PackageReader};
use crate::packages::{Packages, PackagesError};
use tunesmith_domain::{JobPlan, ProgramPlan};
use tunesmith_executor::{AgentArchive, AgentPackages};
use tunesmith_packages::{
    EnvironmentRequest, Environments, Package, PackageError, PreparedEnvironment, ProgramUser, StagedPackage, Step,
};

/// Replaces the files of uploaded packages of `project` in `plan`, which may be those of another server, by files of this one.
///
/// # Errors
/// As [`Packages::fetch`].
pub(super) async fn fetch_packages(
    packages: &Packages,
    project: &str,
    plan: &mut JobPlan,
) -> Result<(), PackagesError> {
    let ProgramPlan::PythonModule { package_uris, .. } = &mut plan.program else { return Ok(()) };
    for uri in package_uris {
        *uri = packages.local_path(project, uri).await?;
    }
    Ok(())
}

/// The packages of a job whose programs can start.
pub(super) enum Prepared {
    /// It has none.
    Nothing,
    /// They are installed on this machine, for programs that see its files.
    Here(PreparedEnvironment),
    /// They are where agents get them.
    ByAgents(AgentPackages),
}

/// Installs the packages `wanted` by `plan`, and calls `observer` before each step that may take long.
///
/// # Errors
/// [`PackageError`]; the job then fails.
pub(super) async fn prepare(
    environments: &Environments,
    plan: &JobPlan,
    wanted: Option<Wanted<'_>>,
    user: Option<ProgramUser>,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Prepared, PackageError> {
    let Some(Wanted { packages, requirements }) = wanted else { return Ok(Prepared::Nothing) };
    let python = plan.machines.python.clone();
    let request = EnvironmentRequest { packages, requirements: requirements.to_vec(), user, python };
    environments.prepare_observed(&request, observer).await.map(Prepared::Here)
}

/// Puts the packages `wanted` by `plan` into `folder`, from which agents get them, and calls `observer` before each step that may take long.
///
/// # Errors
/// [`PackageError`]; the job then fails.
pub(super) async fn stage(
    environments: &Environments,
    plan: &JobPlan,
    wanted: Option<Wanted<'_>>,
    folder: &Path,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Prepared, PackageError> {
    // The interpreter of the node needs no environment if there is nothing to install.
    let wanted = wanted.filter(|wanted| !wanted.packages.is_empty() || !wanted.requirements.is_empty());
    let Some(Wanted { packages, requirements }) = wanted else { return Ok(Prepared::Nothing) };
    let staged = environments.stage(&packages, requirements, folder, observer).await?;
    let archive = |one: StagedPackage| AgentArchive { sha256: one.sha256, file_name: one.file_name };
    Ok(Prepared::ByAgents(AgentPackages {
        archives: staged.into_iter().map(archive).collect(),
        requirements: requirements.to_vec(),
        python: plan.machines.python.clone(),
    }))
}

/// The packages of a Python module, and its further requirements.
pub(super) struct Wanted<'a> {
    packages: Vec<Package>,
    requirements: &'a [String],
}

/// What `plan` wants to be installed; `None` if its program is not a Python module.
///
/// # Errors
/// [`PackageError`] if a package is invalid or not allowed.
pub(super) fn wanted_by<'a>(
    plan: &'a JobPlan,
    allowed: &AllowedFolders,
    reader: PackageReader<'_>,
) -> Result<Option<Wanted<'a>>, PackageError> {
    let ProgramPlan::PythonModule { package_uris, package_path, requirements, .. } = &plan.program else {
        return Ok(None);
    };
    let mut packages = Vec::with_capacity(package_uris.len() + 1);
    for uri in package_uris {
        packages.push(allowed.package(uri, reader)?);
    }
    if let Some(path) = package_path {
        packages.push(allowed.package_folder(path)?);
    }
    Ok(Some(Wanted { packages, requirements }))
}
