//! The packages of a plan, as far as the server may read them.

use std::path::Path;
use std::sync::Arc;

use super::{AllowedFolders, NotAllowed};
use crate::packages::Packages;
use tunesmith_packages::{LocalArchive, Package, PackageError, PackageSource, ProgramUser, SourceFolder};

/// Owner and reader of the packages of a job.
#[derive(Clone, Copy)]
pub(crate) struct PackageReader<'a> {
    /// The packages that clients have uploaded.
    pub(crate) packages: &'a Packages,
    /// The project of the job.
    pub(crate) project: &'a str,
    /// The user of the programs; `None` for that of this process.
    pub(crate) user: Option<&'a ProgramUser>,
    /// Whether the programs see the files of this machine.
    pub(crate) is_here: bool,
}

impl AllowedFolders {
    /// The package at `uri`, an entry of `packageUris`. Does no IO.
    ///
    /// # Errors
    /// [`PackageError`] if the address is invalid or not allowed.
    pub(crate) fn package(&self, uri: &str, reader: PackageReader<'_>) -> Result<Package, PackageError> {
        let source: PackageSource = uri.parse()?;
        if let Some(path) = source.local_path()
            && let Some(place) = reader.packages.place_of(reader.project, path)
        {
            // The server keeps it for the project.
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

    /// The package in the folder `path`, which `tunesmith run --package-path` names.
    ///
    /// # Errors
    /// [`PackageError`] if it is not that of a package, or not allowed.
    pub(crate) fn package_folder(&self, path: &Path) -> Result<Package, PackageError> {
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
