//! Copies of models between stores of other kinds.

use std::path::Path;

use tunesmith_domain::Refusal;
use tunesmith_store::{Documents, StoreError};

use crate::model_files::VersionFolder;
use crate::models::{PROJECTS, decoded, kind};
use crate::records::{Model, VersionState};
use crate::{batch, operations, shared_files};

/// Documents that are read from the store at a time. A guess.
const PAGE: usize = 100;

/// Numbers of copied records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopiedModels {
    pub models: u64,
    pub versions: u64,
    pub operations: u64,
}

/// A copy that has failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyModelsError {
    #[error("the target contains models already: copy to an empty store")]
    NotEmpty,
    #[error("{kind} {name} differs from its copy: stop the servers that change the source, and copy again")]
    Differs { kind: String, name: String },
    #[error("{0}")]
    Unreadable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for CopyModelsError {
    fn from(refusal: Refusal) -> Self {
        Self::Unreadable(refusal.message)
    }
}

/// Copies models, versions with their files, operations and the progress of batch predictions from `from` to the empty
/// documents `to`, then compares both. For a target that servers share, files that are not among the documents of `from` are
/// added from `folder`, that of all files of models.
///
/// # Errors
/// [`CopyModelsError`]. `to` may then have some of the documents.
pub async fn copy_models(
    from: &dyn Documents,
    to: &dyn Documents,
    folder: Option<&Path>,
) -> Result<CopiedModels, CopyModelsError> {
    if !to.list_after(PROJECTS, "", 1).await?.is_empty() {
        return Err(CopyModelsError::NotEmpty);
    }
    let mut copied = CopiedModels::default();
    for is_check in [false, true] {
        let copy = Copy { from, to, is_check };
        let mut after = String::new();
        loop {
            let page = from.list_after(batch::KIND, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            for (name, body) in page {
                copy.parts(batch::KIND, &name, batch::parts(&body)).await?;
            }
        }
        copied = CopiedModels::default();
        for (project, ..) in from.list(PROJECTS).await? {
            copied.operations += copy.documents(&operations::kind(&project)).await?;
            copied.models += copy.documents(&kind(&project)).await?;
            copied.versions += copy.files(&project, folder).await?;
            copy.parts(PROJECTS, &project, Some(1)).await?;
        }
    }
    Ok(copied)
}

struct Copy<'a> {
    from: &'a dyn Documents,
    to: &'a dyn Documents,
    /// Whether copies are compared, not made.
    is_check: bool,
}

impl Copy<'_> {
    /// Copies the first parts of all documents of `kind`, and returns their number.
    async fn documents(&self, kind: &str) -> Result<u64, CopyModelsError> {
        let (mut count, mut after) = (0, String::new());
        loop {
            let page = self.from.list_after(kind, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(count) };
            after.clone_from(last);
            count += page.len() as u64;
            for (name, body) in page {
                self.part(kind, &name, 0, body).await?;
            }
        }
    }

    /// Copies the files of the versions of `project`, and returns the number of versions.
    async fn files(&self, project: &str, folder: Option<&Path>) -> Result<u64, CopyModelsError> {
        let (mut count, mut after) = (0, String::new());
        loop {
            let page = self.from.list_after(&kind(project), &after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(count) };
            after.clone_from(last);
            for (name, body) in page {
                let model: Model = decoded(project, &name, &body)?;
                count += model.versions.len() as u64;
                for version in model.versions.iter().filter(|version| version.state == VersionState::Ready) {
                    let place = folder.map(|folder| VersionFolder::new(folder, project, &version.uid));
                    if self.from.part(shared_files::KIND, &version.uid, 0).await?.is_some() {
                        self.parts(shared_files::KIND, &version.uid, None).await?;
                    } else if let Some(place) = place.filter(|place| !self.is_check && place.is_complete()) {
                        shared_files::publish(self.to, &version.uid, place.path()).await?;
                    }
                }
            }
        }
    }

    /// Copies `count` parts of a document, or all up to the first that is missing.
    async fn parts(&self, kind: &str, name: &str, count: Option<u64>) -> Result<(), CopyModelsError> {
        for part in 0..count.unwrap_or(u64::MAX) {
            match self.from.part(kind, name, part).await? {
                Some(body) => self.part(kind, name, part, body).await?,
                None if count.is_none() => break,
                None => {}
            }
        }
        Ok(())
    }

    async fn part(&self, kind: &str, name: &str, part: u64, body: Vec<u8>) -> Result<(), CopyModelsError> {
        if !self.is_check {
            return Ok(self.to.put(kind, name, part, body).await?);
        }
        match self.to.part(kind, name, part).await? {
            Some(copy) if copy == body => Ok(()),
            _ => Err(CopyModelsError::Differs { kind: kind.to_owned(), name: name.to_owned() }),
        }
    }
}
