//! Prepares the program of a job: installs its Python packages, once per job.

use std::path::Path;

use crate::packages::{Packages, PackagesError};
use tunesmith_domain::{JobPlan, ProgramPlan};
use tunesmith_executor::{AgentArchive, AgentPackages};
use tunesmith_packages::{
    EnvironmentRequest, Environments, Package, PackageError, PackageSource, PreparedEnvironment, ProgramUser,
    SourceFolder, StagedPackage, Step,
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

/// The packages of a job whose programs can start.
pub(super) enum Prepared {
    /// It has none.
    Nothing,
    /// They are installed on this machine, for programs that see its files.
    Here(PreparedEnvironment),
    /// They are where agents get them.
    ByAgents(AgentPackages),
}

/// Installs the packages of `plan`, and calls `observer` before each step that may take long.
///
/// # Errors
/// [`PackageError`]; the job then fails.
pub(super) async fn prepare(
    environments: &Environments,
    plan: &JobPlan,
    user: Option<ProgramUser>,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Prepared, PackageError> {
    let Some(Wanted { packages, requirements }) = wanted_by(plan)? else { return Ok(Prepared::Nothing) };
    let python = plan.machines.python.clone();
    let request = EnvironmentRequest { packages, requirements: requirements.to_vec(), user, python };
    environments.prepare_observed(&request, observer).await.map(Prepared::Here)
}

/// Puts the packages of `plan` into `folder`, from which agents get them, and calls `observer` before each step that may take long.
///
/// # Errors
/// [`PackageError`]; the job then fails.
pub(super) async fn stage(
    environments: &Environments,
    plan: &JobPlan,
    folder: &Path,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Prepared, PackageError> {
    // The interpreter of the node needs no environment if there is nothing to install.
    let wanted = wanted_by(plan)?.filter(|wanted| !wanted.packages.is_empty() || !wanted.requirements.is_empty());
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
struct Wanted<'a> {
    packages: Vec<Package>,
    requirements: &'a [String],
}

/// What `plan` wants to be installed; `None` if its program is not a Python module.
fn wanted_by(plan: &JobPlan) -> Result<Option<Wanted<'_>>, PackageError> {
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
    Ok(Some(Wanted { packages, requirements }))
}
