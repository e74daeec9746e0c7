//! Artifacts: files left in the job folder by programs, as bounded lists or single files.
//!
//! Submitters choose the job folder, so `tunesmith_files` opens its files and refuses links below it. Where programs
//! run as a separate user, only that user's files are visible, so a job folder exposes nothing that its programs cannot
//! read.
//!
//! Folders in object stores are out of scope, because the server's credentials may exceed those of a person viewing the
//! job. So are folders on other machines.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tunesmith_domain::{JobId, TrialId};
use tunesmith_files::{FileUser, OpenError, RootedPath};
use tunesmith_store::StoreError;

use super::allowed_folders::{JobFolder, NotAllowed};
use super::jobs::Jobs;

/// Maximum length of a list.
pub const MAX_ARTIFACTS: usize = 1000;

/// Maximum size of a downloaded file in bytes. A guess: the checkpoint of a large model.
pub const MAX_BYTES: u64 = 4 << 30;

/// Limit on directory entries visited per list, and on folder depth.
const MAX_ENTRIES: usize = 20_000;
const MAX_DEPTH: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Missing job or trial, or a failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("job {0} has no jobDir, so that it has no artifacts")]
    NoFolder(JobId),
    #[error("the artifacts of job {job} cannot be read: the job folder {refusal}")]
    NotAllowed { job: JobId, refusal: NotAllowed },
    #[error("the artifacts of job {job} are in {address}: read them there")]
    Elsewhere { job: JobId, address: String },
    #[error(
        "there is no artifact {name:?}: a regular file below {folder} of the user of the programs, reached without links"
    )]
    NotFound { name: String, folder: PathBuf },
    #[error("the artifact {name:?} has {size_bytes} bytes; up to {MAX_BYTES} are sent: copy it from {folder}")]
    TooLarge { name: String, size_bytes: u64, folder: PathBuf },
    #[error("{path} cannot be read")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path relative to the folder, separated by slashes.
    pub name: String,
    pub size_bytes: u64,
    pub modified: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    pub folder: PathBuf,
    /// Sorted by folder and name; at most [`MAX_ARTIFACTS`].
    pub files: Vec<Artifact>,
    /// Whether the list is complete, not counting files of other users.
    pub is_complete: bool,
}

impl Jobs {
    /// Lists the artifacts of `trial`, or with `None` those of a job without hyperparameters. A missing folder yields
    /// none.
    pub async fn artifacts(&self, id: &JobId, trial: Option<TrialId>) -> Result<Artifacts, ArtifactError> {
        let (place, user) = self.artifacts_of(id, trial).await?;
        let folder = place.path();
        let listed = tokio::task::spawn_blocking(move || match user {
            // One thread with the user's rights for the whole list.
            Some(user) => user.run(|| list(&place, Some(user.uid)))?,
            None => list(&place, None),
        });
        let listed = listed.await;
        let unreadable = |source| ArtifactError::Unreadable { path: folder.clone(), source };
        match listed.map_err(|error| unreadable(std::io::Error::other(error)))? {
            Ok((files, is_complete)) => Ok(Artifacts { folder: folder.clone(), files, is_complete }),
            Err(error) if error.is_not_found() || matches!(error, OpenError::NotRegular) => {
                Ok(Artifacts { folder: folder.clone(), files: Vec::new(), is_complete: true })
            }
            Err(error) => Err(unreadable(error.into())),
        }
    }

    pub async fn artifact(&self, id: &JobId, trial: Option<TrialId>, name: &str) -> Result<(File, u64), ArtifactError> {
        let (place, user) = self.artifacts_of(id, trial).await?;
        let owner = user.as_ref().map(|user| user.uid);
        let (folder, wanted) = (place.path(), place.join(name).with_rights_of(user));
        let path = wanted.path();
        let opened = tokio::task::spawn_blocking(move || {
            let file = wanted.open()?;
            let metadata = file.metadata()?;
            Ok::<_, OpenError>((file, metadata))
        });
        let absent = || ArtifactError::NotFound { name: name.to_owned(), folder: folder.clone() };
        let unreadable = |source| ArtifactError::Unreadable { path: path.clone(), source };
        let (file, metadata) = match opened.await.map_err(|error| unreadable(std::io::Error::other(error)))? {
            Ok(opened) => opened,
            Err(error) if error.is_not_found() || matches!(error, OpenError::NotRegular) => return Err(absent()),
            Err(error) => return Err(unreadable(error.into())),
        };
        if !is_of(&metadata, owner) {
            return Err(absent());
        }
        let size_bytes = metadata.len();
        if size_bytes > MAX_BYTES {
            return Err(ArtifactError::TooLarge { name: name.to_owned(), size_bytes, folder });
        }
        Ok((file, size_bytes))
    }

    /// Artifact folder of `trial`, and the user of its programs if distinct.
    async fn artifacts_of(
        &self,
        id: &JobId,
        trial: Option<TrialId>,
    ) -> Result<(RootedPath, Option<Arc<FileUser>>), ArtifactError> {
        let job = self.services.store.job(id).await?;
        let absent = || ArtifactError::NoFolder(id.clone());
        let plan = job.plan.as_ref().map_err(|_| absent())?;
        let address = plan.job_dir.clone().ok_or_else(absent)?;
        match trial {
            None if job.study.is_some() => {
                return Err(StoreError::NotFound { resource: format!("program of job {id}") }.into());
            }
            None => {}
            Some(trial) => {
                let study = job.study.as_ref().ok_or_else(|| no_trial(id, trial))?;
                self.services.store.trial(study, trial).await?;
            }
        }
        let folder = self.services.job_folder(id, plan);
        let folder = folder.map_err(|refusal| ArtifactError::NotAllowed { job: id.clone(), refusal })?;
        let JobFolder::Here(folder) = folder else {
            let of_trial = trial.map(|trial| format!("{}/{trial}", address.trim_end_matches('/')));
            let address = of_trial.unwrap_or(address);
            return Err(ArtifactError::Elsewhere { job: id.clone(), address });
        };
        let place = folder.of(trial).with_rights_of(None);
        Ok((place, folder.user))
    }
}

fn no_trial(job: &JobId, trial: TrialId) -> StoreError {
    StoreError::NotFound { resource: format!("trial {trial} of job {job}") }
}

/// Whether `owner`, if given, owns the file.
fn is_of(metadata: &Metadata, owner: Option<u32>) -> bool {
    owner.is_none_or(|owner| metadata.uid() == owner)
}

/// Regular files below `folder`, and whether the list is complete.
fn list(folder: &RootedPath, owner: Option<u32>) -> Result<(Vec<Artifact>, bool), OpenError> {
    let mut listing = Listing { owner, files: Vec::new(), looked_at: 0, is_complete: true };
    listing.add(folder, Path::new(""), 0)?;
    Ok((listing.files, listing.is_complete))
}

struct Listing {
    owner: Option<u32>,
    files: Vec<Artifact>,
    looked_at: usize,
    is_complete: bool,
}

impl Listing {
    /// Adds the files of `folder` at the path `name`, its own before those of subfolders.
    fn add(&mut self, folder: &RootedPath, name: &Path, depth: usize) -> Result<(), OpenError> {
        let mut entries = folder.entries()?;
        entries.sort_by(|a, b| (a.is_folder, &a.name).cmp(&(b.is_folder, &b.name)));
        for entry in entries {
            self.looked_at += 1;
            if self.files.len() == MAX_ARTIFACTS || self.looked_at > MAX_ENTRIES {
                self.is_complete = false;
                return Ok(());
            }
            let (place, path) = (folder.join(&entry.name), name.join(&entry.name));
            if entry.is_folder && depth < MAX_DEPTH {
                match self.add(&place, &path, depth + 1) {
                    // Removed or replaced meanwhile, or another user's.
                    Ok(()) | Err(OpenError::NotRegular) => {}
                    Err(OpenError::Io(_) | OpenError::ImpossibleName) => self.is_complete = false,
                    Err(error @ OpenError::TooLarge { .. }) => return Err(error),
                }
            } else if entry.is_folder {
                self.is_complete = false;
            } else if entry.is_file {
                self.add_file(&place, &path);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, place: &RootedPath, path: &Path) {
        let Ok(metadata) = place.metadata() else { return };
        if !metadata.is_file() || !is_of(&metadata, self.owner) {
            return;
        }
        let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        // Non-UTF-8 names cannot be requested.
        let Some(name) = path.to_str() else {
            self.is_complete = false;
            return;
        };
        self.files.push(Artifact {
            name: name.to_owned(),
            size_bytes: metadata.len(),
            modified: modified.unwrap_or(Timestamp::UNIX_EPOCH),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_listed_without_links_and_files_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("1/model/deep")).unwrap();
        fs::write(at("secret"), "outside").unwrap();
        for (name, text) in [("1/z.txt", "12345"), ("1/model/a <b>.bin", "1"), ("1/model/deep/x", "")] {
            fs::write(at(name), text).unwrap();
        }
        symlink(at("secret"), at("1/link")).unwrap();
        symlink(folder.path(), at("1/loop")).unwrap();
        let place = RootedPath::new(folder.path(), "1");
        let (files, is_complete) = list(&place, None).unwrap();
        let found: Vec<(&str, u64)> = files.iter().map(|file| (&*file.name, file.size_bytes)).collect();
        assert_eq!(found, [("z.txt", 5), ("model/a <b>.bin", 1), ("model/deep/x", 0)]);
        assert!(is_complete);
        assert!(files.iter().all(|file| file.modified > Timestamp::UNIX_EPOCH));
        let uid = fs::metadata(at("secret")).unwrap().uid();
        assert_eq!(list(&place, Some(uid)).unwrap().0.len(), 3);
        assert_eq!(list(&place, Some(uid + 1)).unwrap().0, []);
        assert!(list(&RootedPath::new(folder.path(), "1/loop"), None).is_err());
    }

    #[test]
    fn long_lists_and_deep_folders_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MAX_ARTIFACTS {
            fs::write(folder.path().join(format!("{number:04}")), "").unwrap();
        }
        let (files, is_complete) = list(&RootedPath::new(folder.path(), ""), None).unwrap();
        assert_eq!((files.len(), is_complete), (MAX_ARTIFACTS, false));
        assert_eq!(files[999].name, "0999");
        let folder = tempfile::tempdir().unwrap();
        let deep: PathBuf = (0..=MAX_DEPTH).map(|_| "d").collect();
        fs::create_dir_all(folder.path().join(&deep)).unwrap();
        fs::write(folder.path().join(deep).join("file"), "").unwrap();
        assert_eq!(list(&RootedPath::new(folder.path(), ""), None).unwrap(), (Vec::new(), false));
    }
}
