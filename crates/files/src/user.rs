//! Execution with the permissions of another user of this machine.

use std::io;
use std::thread;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileUser {
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl FileUser {
    /// Runs `work` as this user on a dedicated thread: on Linux, each thread has its own user.
    ///
    /// # Errors
    /// If this process may not become the user, or no thread can be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if geteuid().as_raw() == self.uid {
            return Ok(work());
        }
        thread::scope(|scope| {
            let started = thread::Builder::new().name("as-user".to_owned()).spawn_scoped(scope, || {
                self.become_user()?;
                Ok(work())
            })?;
            started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Switches this thread to the user and drops root's capabilities. Keeps the real user, so that processes of the
    /// user cannot signal it.
    fn become_user(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|&group| Gid::from_raw(group)).collect();
        set_thread_groups(&groups)?;
        set_thread_res_gid(None, Gid::from_raw(self.gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(self.uid), None)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use rustix::thread::Pid;

    use super::*;

    const DAEMON: FileUser = FileUser { uid: 1, gid: 1, groups: Vec::new() };

    fn thread_status(field: &str) -> String {
        let status =
            fs::read_to_string(format!("/proc/self/task/{}/status", Pid::as_raw(Some(rustix::thread::gettid()))));
        let line = status.unwrap().lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()));
        line.unwrap()
    }

    #[test]
    fn rights_are_those_of_the_user_and_only_on_its_thread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "of this user").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        if !geteuid().is_root() {
            assert_eq!(DAEMON.run(|| ()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let (read, uids, capabilities) =
            DAEMON.run(|| (fs::read(&path), thread_status("Uid:"), thread_status("CapEff:"))).unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!((uids.as_str(), capabilities.as_str()), ("0\t1\t0\t1", "0000000000000000"));
        let made = folder.path().join("made");
        DAEMON.run(|| fs::write(&made, "")).unwrap().unwrap();
        assert_eq!((made.metadata().unwrap().uid(), made.metadata().unwrap().gid()), (1, 1));
        assert_eq!(geteuid(), Uid::ROOT);
        assert_eq!(fs::read_to_string(&path).unwrap(), "of this user");
    }
}
