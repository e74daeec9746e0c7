//! Users that programs run as.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{Gid, Uid, User, getgrouplist};
use serde::{Deserialize, Serialize};

/// User of this machine, with everything a process needs to switch to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub user: String,
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
    /// All groups, including the primary one.
    pub groups: Vec<u32>,
    /// Home folder.
    pub home: String,
}

/// Users of programs, by project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    /// User of projects without their own; `None` for the user of this process.
    default: Option<Identity>,
    projects: BTreeMap<String, Identity>,
}

/// Failures to run programs as a user.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("only root may run programs as another user; this process has the user ID {uid}")]
    NotRoot { uid: u32 },
    #[error("there is no user {user:?} on this machine")]
    Unknown { user: String },
    #[error("{user:?} is root, which programs must not be")]
    Root { user: String },
    #[error("{scope} has two users: {first:?} and {second:?}")]
    Twice { scope: String, first: String, second: String },
    #[error("projects that are not named have no user; give USER as well as PROJECT=USER")]
    NoDefault,
    #[error("the user {user:?} cannot be looked up")]
    Lookup {
        user: String,
        #[source]
        source: io::Error,
    },
}

impl Identities {
    /// Parses entries `USER` and `PROJECT=USER`. Without entries, programs run as the user of this process.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn parse(entries: &[String]) -> Result<Self, IdentityError> {
        let uid = Uid::effective();
        if !entries.is_empty() && !uid.is_root() {
            return Err(IdentityError::NotRoot { uid: uid.as_raw() });
        }
        let mut identities = Self::default();
        for entry in entries {
            let (scope, user, before) = match entry.split_once('=') {
                Some((project, user)) => {
                    let before = identities.projects.insert(project.to_owned(), Identity::find(user)?);
                    (format!("project {project}"), user, before)
                }
                None => ("--run-as".to_owned(), entry.as_str(), identities.default.replace(Identity::find(entry)?)),
            };
            if let Some(before) = before {
                return Err(IdentityError::Twice { scope, first: before.user, second: user.to_owned() });
            }
        }
        if identities.default.is_none() && !identities.projects.is_empty() {
            return Err(IdentityError::NoDefault);
        }
        Ok(identities)
    }

    /// User of the programs of `project`; `None` for the user of this process.
    pub fn of(&self, project: &str) -> Option<&Identity> {
        self.projects.get(project).or(self.default.as_ref())
    }

    /// All users of programs; `None` for the user of this process.
    pub fn all(&self) -> Vec<Option<&Identity>> {
        let mut all = vec![self.default.as_ref()];
        for identity in self.projects.values() {
            if !all.contains(&Some(identity)) {
                all.push(Some(identity));
            }
        }
        all
    }

    /// Whether programs run as users other than that of this process.
    pub fn are_given(&self) -> bool {
        self.default.is_some()
    }
}

impl Identity {
    fn find(name: &str) -> Result<Self, IdentityError> {
        let lookup = |errno: nix::errno::Errno| IdentityError::Lookup { user: name.to_owned(), source: errno.into() };
        let unknown = || IdentityError::Unknown { user: name.to_owned() };
        let user = User::from_name(name).map_err(lookup)?.ok_or_else(unknown)?;
        if user.uid.is_root() {
            return Err(IdentityError::Root { user: name.to_owned() });
        }
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let groups = getgrouplist(&c_name, user.gid).map_err(lookup)?;
        // Membership in root's group would give access to the server's files.
        let groups = groups.into_iter().map(Gid::as_raw).filter(|&gid| gid != 0).collect();
        Ok(Self {
            user: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups,
            home: user.dir.display().to_string(),
        })
    }

    /// Variables that describe the user.
    pub fn variables(&self) -> [(&'static str, &str); 3] {
        [("HOME", self.home.as_str()), ("LOGNAME", self.user.as_str()), ("USER", self.user.as_str())]
    }

    /// Creates `folder` and its parents as this user, and thus only where the user has write permission.
    pub(super) fn create_folder(&self, folder: &Path, umask: Option<u32>) -> io::Result<()> {
        let mut command = Command::new("/bin/mkdir");
        command.arg("-p").arg("--").arg(folder).current_dir("/").stdin(Stdio::null());
        super::system::become_user(&mut command, Some(self), umask);
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!("{message} (as user {})", self.user)))
    }

    /// Makes this user the owner of the folder `path`, and grants traversal of the folders between `root` and `path`.
    pub(super) fn give(&self, path: &Path, root: &Path) -> io::Result<()> {
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
            let metadata = folder.symlink_metadata()?;
            if metadata.is_dir() && metadata.mode() & 0o001 == 0 {
                std::fs::set_permissions(folder, PermissionsExt::from_mode(metadata.mode() & 0o7777 | 0o011))?;
            }
        }
        chown(path, Some(self.uid), Some(self.gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[&str]) -> Result<Identities, String> {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        Identities::parse(&entries).map_err(|error| error.to_string())
    }

    #[test]
    fn projects_have_their_user_or_the_common_one() {
        assert_eq!(parse(&[]).unwrap(), Identities::default());
        if !Uid::effective().is_root() {
            assert!(parse(&["daemon"]).unwrap_err().starts_with("only root may run programs as another user"));
            return;
        }
        let identities = parse(&["daemon", "p=bin"]).unwrap();
        assert_eq!(identities.of("p").unwrap().user, "bin");
        assert_eq!(identities.of("q").unwrap().user, "daemon");
        assert!(identities.are_given());
        assert_eq!(parse(&["root"]).unwrap_err(), "\"root\" is root, which programs must not be");
        assert_eq!(parse(&["no-such"]).unwrap_err(), "there is no user \"no-such\" on this machine");
        assert_eq!(parse(&["daemon", "bin"]).unwrap_err(), "--run-as has two users: \"daemon\" and \"bin\"");
        assert!(parse(&["p=bin"]).unwrap_err().contains("give USER as well as PROJECT=USER"));
    }
}
