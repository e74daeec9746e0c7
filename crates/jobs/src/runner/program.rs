//! Prepares a job's program: installs its Python packages, once per job.

use std::path::Path;

use crate::allowed_folders::{AllowedFolders, PackageReader};
use crate::packages::{Packages, PackagesError};
use tunesmith_domain::{JobPlan, ProgramPlan};
use tunesmith_executor::{AgentArchive, AgentPackages};
use tunesmith_packages::{
    EnvironmentRequest, Environments, Package, PackageError, PreparedEnvironment, ProgramUser, StagedPackage, Step,
};

/// Replaces uploaded package files of any server in `plan` by local files.
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

pub(super) enum Prepared {
    Nothing,
    /// Installed on this machine, for programs that see its files.
    Here(PreparedEnvironment),
    /// Staged for agents.
    ByAgents(AgentPackages),
}

/// Installs the `wanted` packages, calling `observer` before each potentially long step.
///
/// # Errors
/// [`PackageError`], which fails the job.
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

/// Stages the `wanted` packages in `folder` for agents, calling `observer` before each potentially long step.
///
/// # Errors
/// [`PackageError`], which fails the job.
pub(super) async fn stage(
    environments: &Environments,
    plan: &JobPlan,
    wanted: Option<Wanted<'_>>,
    folder: &Path,
    observer: &(dyn Fn(Step) + Send + Sync),
) -> Result<Prepared, PackageError> {
    // With nothing to install, the node's interpreter needs no environment.
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

/// Packages and further requirements of a Python module.
pub(super) struct Wanted<'a> {
    packages: Vec<Package>,
    requirements: &'a [String],
}

/// Packages and requirements of `plan`; `None` if its program is not a Python module.
pub(super) fn named_packages<'a>(
    plan: &'a JobPlan,
    allowed: &AllowedFolders,
    reader: PackageReader<'_>,
) -> Result<Option<Wanted<'a>>, PackageError> {
    let ProgramPlan::PythonModule { requirements, .. } = &plan.program else { return Ok(None) };
    Ok(Some(Wanted { packages: allowed.packages(plan, reader).collect::<Result<_, _>>()?, requirements }))
}
