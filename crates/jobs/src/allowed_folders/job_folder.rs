//! The server's access to the job folder of a plan.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{AllowedFolders, NotAllowed};
use crate::runner::JobServices;
use crate::trainer::placement;
use tunesmith_domain::{JobId, JobPlan, TrialId};
use tunesmith_files::{FileUser, RootedPath};
use tunesmith_objects::{ObjectAddress, ObjectFolder};
use tunesmith_packages::ProgramUser;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobFolder {
    None,
    /// On this machine, readable by the server.
    Here(HostFolder),
    /// In an object store, read with the server's credentials.
    Objects(String),
    /// On another machine or of unknown kind; only programs use it.
    Elsewhere,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostFolder {
    place: RootedPath,
    /// Whether opening refuses links in every component.
    pub(crate) is_without_links: bool,
    /// User of the programs; `None` for the user of this process.
    pub(crate) user: Option<Arc<FileUser>>,
}

impl HostFolder {
    /// Folder of `trial`, or of the job.
    pub(crate) fn of(&self, trial: Option<TrialId>) -> RootedPath {
        match trial {
            Some(trial) => self.place.join(trial.to_string()),
            None => self.place.clone(),
        }
    }
}

impl JobServices {
    pub(crate) fn job_folder(&self, id: &JobId, plan: &JobPlan) -> Result<JobFolder, NotAllowed> {
        let placement = placement(&plan.machines);
        let is_here = self.executor.capabilities(&placement).shares_files;
        let has_volume = |path: &Path| self.executor.has_volume(&placement, path);
        let user = (self.program_user)(id.parts().0);
        self.allowed_folders.job_folder(id.parts().0, plan, user.as_ref(), is_here, &has_volume)
    }

    /// Creates the parent folders that the user's programs need in order to create `folder`.
    pub(crate) fn prepare_area(&self, id: &JobId, folder: &HostFolder) -> io::Result<()> {
        let project = id.parts().0;
        match self.allowed_folders.restriction() {
            Some(restriction) => {
                restriction.prepare(project, &folder.of(None).path(), (self.program_user)(project).as_ref())
            }
            None => Ok(()),
        }
    }
}

impl AllowedFolders {
    /// Resolves the job folder of `plan`. `is_here`: the programs see this machine's files; `has_volume`: whether a
    /// path lies on one of their volumes.
    pub(crate) fn job_folder(
        &self,
        project: &str,
        plan: &JobPlan,
        user: Option<&ProgramUser>,
        is_here: bool,
        has_volume: &dyn Fn(&Path) -> bool,
    ) -> Result<JobFolder, NotAllowed> {
        let Some(job_dir) = &plan.job_dir else { return Ok(JobFolder::None) };
        let restriction = self.restriction();
        let Some(path) = plan.local_job_dir() else {
            if !ObjectFolder::is_address(job_dir) {
                return Ok(JobFolder::Elsewhere);
            }
            return match (restriction, ObjectAddress::parse(job_dir)) {
                (Some(restriction), Ok(address)) if !restriction.has_address(project, &address) => {
                    Err(restriction.refuse(project, job_dir, is_here))
                }
                // An invalid address is refused on use.
                _ => Ok(JobFolder::Objects(job_dir.clone())),
            };
        };
        let Some(restriction) = restriction else {
            return Ok(if is_here { here(RootedPath::new(path, ""), false, user) } else { JobFolder::Elsewhere });
        };
        if !is_here && super::is_plain(&path) && has_volume(&path) {
            return Ok(JobFolder::Elsewhere);
        }
        match restriction.path(project, &path, is_here) {
            Some(resolved) if is_here => Ok(here(restriction.place(&resolved), true, user)),
            Some(_) => Ok(JobFolder::Elsewhere),
            None => Err(restriction.refuse(project, job_dir, is_here)),
        }
    }
}

fn here(place: RootedPath, is_without_links: bool, user: Option<&ProgramUser>) -> JobFolder {
    let user = user.map(|user| Arc::new(user.files()));
    JobFolder::Here(HostFolder { place: place.with_rights_of(user.clone()), is_without_links, user })
}
