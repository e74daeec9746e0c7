//! The server's access to the files of a model.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{AllowedFolders, NotAllowed, PackageReader};
use crate::packages::Packages;
use tunesmith_files::RootedPath;
use tunesmith_objects::{ObjectAddress, ObjectError, ObjectFolder};
use tunesmith_packages::{Package, PackageError, ProgramUser};

/// Folder with the files of a model, or a file or folder of a batch prediction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFolder {
    /// On this machine, opened with the rights of the user of the programs.
    Here(RootedPath),
    /// Address in an object store, read with the server's credentials.
    Objects(String),
}

/// Why a folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelFolderError {
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error(
        "{0:?} is not a path of this server or an address: expected /FOLDER, gs://BUCKET/FOLDER or s3://BUCKET/FOLDER"
    )]
    Form(String),
    #[error("{0}")]
    Address(String),
}

impl AllowedFolders {
    /// Resolves `uri`, the folder of a model that `project` deploys, or a file or folder of its batch predictions. No I/O.
    ///
    /// # Errors
    /// [`ModelFolderError`].
    pub fn model_folder(
        &self,
        project: &str,
        uri: &str,
        user: Option<&ProgramUser>,
    ) -> Result<ModelFolder, ModelFolderError> {
        let restriction = self.restriction();
        if ObjectFolder::is_address(uri) {
            let invalid = |error: ObjectError| ModelFolderError::Address(error.to_string());
            let address = ObjectAddress::parse(uri).map_err(invalid)?;
            return match restriction {
                Some(restriction) if !restriction.has_address(project, &address) => {
                    Err(restriction.refuse(project, uri, true).into())
                }
                _ => Ok(ModelFolder::Objects(uri.to_owned())),
            };
        }
        let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
        if !path.is_absolute() {
            return Err(ModelFolderError::Form(uri.to_owned()));
        }
        let user = user.map(|user| Arc::new(user.files()));
        let Some(restriction) = restriction else {
            return Ok(ModelFolder::Here(RootedPath::new(path, "").with_rights_of(user)));
        };
        match restriction.path(project, path, true) {
            Some(resolved) => Ok(ModelFolder::Here(restriction.place(&resolved).with_rights_of(user))),
            None => Err(restriction.refuse(project, uri, true).into()),
        }
    }

    /// Creates the parent folders that `user` needs in order to create the allowed `folder`.
    ///
    /// # Errors
    /// If they cannot be created.
    pub fn prepare_output(&self, project: &str, folder: &RootedPath, user: Option<&ProgramUser>) -> io::Result<()> {
        match self.restriction() {
            Some(restriction) => restriction.prepare(project, &folder.path(), user),
            None => Ok(()),
        }
    }

    /// Locates the packages of a model; `uris` are resolved by [`Packages::resolve`]. No I/O.
    ///
    /// # Errors
    /// [`PackageError`].
    pub fn model_packages(
        &self,
        packages: &Packages,
        project: &str,
        uris: &[String],
        user: Option<&ProgramUser>,
    ) -> Result<Vec<Package>, PackageError> {
        let reader = PackageReader { packages, project, user, is_here: true };
        uris.iter().map(|uri| self.package(uri, reader)).collect()
    }
}
