//! The job folder of a plan, as far as the server may use it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{AllowedFolders, NotAllowed};
use crate::runner::JobServices;
use crate::trainer::placement;
use tunesmith_domain::{JobId, JobPlan, TrialId};
use tunesmith_files::{FileUser, Place};
use tunesmith_objects::{ObjectAddress, ObjectFolder};
use tunesmith_packages::ProgramUser;

/// The job folder of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobFolder {
    /// The plan has none.
    None,
    /// A folder of this machine, which the server reads.
    Here(HostFolder),
    /// A folder in an object store, which the server reads with its credentials.
    Objects(String),
    /// A folder that only the programs use: of the machines where they run, or of an unknown kind.
    Elsewhere,
}

/// A job folder of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostFolder {
    place: Place,
    /// Whether no component of the path may be a link.
    pub(crate) is_without_links: bool,
    /// The user of the programs; `None` for that of this process.
    pub(crate) user: Option<Arc<FileUser>>,
}

impl HostFolder {
    /// The folder of `trial`, or that of the job.
    pub(crate) fn of(&self, trial: Option<TrialId>) -> Place {
        match trial {
            Some(trial) => self.place.join(trial.to_string()),
            None => self.place.clone(),
        }
    }
}

impl JobServices {
    /// The job folder of `plan`, a plan of the job `id`.
    ///
    /// # Errors
    /// [`NotAllowed`].
    pub(crate) fn job_folder(&self, id: &JobId, plan: &JobPlan) -> Result<JobFolder, NotAllowed> {
        let placement = placement(&plan.machines);
        let is_here = self.executor.capabilities(&placement).shares_files;
        let has_volume = |path: &Path| self.executor.has_volume(&placement, path);
        let user = (self.program_user)(id.parts().0);
        self.allowed_folders.job_folder(id.parts().0, plan, user.as_ref(), is_here, &has_volume)
    }

    /// Creates what must exist before the programs of the user can create `folder`.
    ///
    /// # Errors
    /// The error of creating a folder.
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
    /// The job folder of `plan` of a job of `project`, whose programs run as `user`. `is_here` states whether they see the files of
    /// this machine, and `has_volume` whether a path is on a volume of theirs.
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
                // An invalid address is refused when it is used.
                _ => Ok(JobFolder::Objects(job_dir.clone())),
            };
        };
        let Some(restriction) = restriction else {
            return Ok(if is_here { here(Place::new(path, ""), false, user) } else { JobFolder::Elsewhere });
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

fn here(place: Place, is_without_links: bool, user: Option<&ProgramUser>) -> JobFolder {
    let user = user.map(|user| Arc::new(user.files()));
    JobFolder::Here(HostFolder { place: place.with_rights_of(user.clone()), is_without_links, user })
}
