//! The server's access to the packages of a plan.

use std::path::Path;
use std::sync::Arc;

use super::{AllowedFolders, NotAllowed};
use crate::packages::Packages;
use tunesmith_domain::{BUILT_IN_TRAINERS, JobPlan, ProgramPlan};
use tunesmith_packages::{
    LocalArchive, Package, PackageError, PackageSource, ProgramUser, SourceFolder, built_in_trainers,
};

/// Identity and rights for reading the packages of a job.
#[derive(Clone, Copy)]
pub(crate) struct PackageReader<'a> {
    pub(crate) packages: &'a Packages,
    pub(crate) project: &'a str,
    /// User of the programs; `None` for the user of this process.
    pub(crate) user: Option<&'a ProgramUser>,
    /// Whether the programs see the files of this machine.
    pub(crate) is_here: bool,
}

impl AllowedFolders {
    /// Packages of `plan`. No I/O, except for a folder of `--package-path`.
    pub(crate) fn packages<'a>(
        &'a self,
        plan: &'a JobPlan,
        reader: PackageReader<'a>,
    ) -> impl Iterator<Item = Result<Package, PackageError>> + 'a {
        let (uris, folder) = match &plan.program {
            ProgramPlan::PythonModule { package_uris, package_path, .. } => {
                (package_uris.as_slice(), package_path.as_ref())
            }
            ProgramPlan::Command { .. } | ProgramPlan::Container { .. } => (&[][..], None),
        };
        let archives = uris.iter().map(move |uri| self.package(uri, reader));
        archives.chain(folder.into_iter().map(|path| self.package_folder(path)))
    }

    /// Locates the package of `uri`, an entry of `packageUris`. No I/O.
    pub(super) fn package(&self, uri: &str, reader: PackageReader<'_>) -> Result<Package, PackageError> {
        if uri == BUILT_IN_TRAINERS {
            return built_in_trainers().map(Package::Packed);
        }
        let source: PackageSource = uri.parse()?;
        if let Some(path) = source.local_path()
            && let Some(place) = reader.packages.uploaded_file(reader.project, path)
        {
            // The server retains it for the project.
            return Ok(Package::Local(LocalArchive { source, place }));
        }
        let Some(restriction) = self.restriction() else { return Ok(Package::Archive(source)) };
        let refused = |source: &PackageSource| {
            let refusal = restriction.refuse(reader.project, &source.to_string(), reader.is_here);
            PackageError::Refused { uri: source.to_string(), detail: upload_hint(&refusal) }
        };
        match (source.local_path(), source.object()) {
            (Some(path), _) => match restriction.path(reader.project, path, reader.is_here) {
                Some(resolved) => {
                    let user = reader.user.map(|user| Arc::new(user.files()));
                    let place = restriction.place(&resolved).with_rights_of(user);
                    Ok(Package::Local(LocalArchive { source, place }))
                }
                None => Err(refused(&source)),
            },
            (None, Some(address)) if !restriction.has_address(reader.project, address) => Err(refused(&source)),
            _ => Ok(Package::Archive(source)),
        }
    }

    /// Package source folder of `tunesmith run --package-path`.
    pub(super) fn package_folder(&self, path: &Path) -> Result<Package, PackageError> {
        if self.restriction().is_some() {
            let detail = "a server with tokens reads no package from a folder: submit the job with tunesmith jobs submit training \
                          --package-path, which uploads it";
            return Err(PackageError::Refused { uri: path.display().to_string(), detail: detail.to_owned() });
        }
        Ok(Package::Folder(SourceFolder::new(path)?))
    }
}

fn upload_hint(refusal: &NotAllowed) -> String {
    format!("{refusal}; a package of your machine is uploaded with --package-path")
}
