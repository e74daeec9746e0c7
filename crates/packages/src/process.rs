//! Installer processes in a process group that is killed on drop.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tunesmith_files::RootedPath;

use super::{PackageError, ProgramUser};

/// Maximum number of output lines in an error.
const SHOWN_LINES: usize = 60;
/// Number of bytes at the end of the output to search for these lines.
const SHOWN_BYTES: u64 = 64 * 1024;

/// Resources shared by the processes of one installation.
pub(super) struct InstallerProcess {
    /// Held while the environment is being built.
    pub(super) lock: File,
    /// Receives all output.
    pub(super) log: File,
    pub(super) log_path: PathBuf,
    pub(super) directory: PathBuf,
    /// User of the processes; `None` for that of this process.
    pub(super) user: Option<ProgramUser>,
    /// Timeout of one process.
    pub(super) max_time: Duration,
}

impl InstallerProcess {
    /// Runs `argv` to its end. Dropping the future kills its process group.
    ///
    /// # Errors
    /// [`PackageError::InstallFailed`] with `installer` if the exit status is not 0.
    pub(super) async fn run(
        &self,
        installer: &'static str,
        argv: &[OsString],
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<(), PackageError> {
        let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
        let copy = |file: &File| file.try_clone().map(Stdio::from);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(variables)
            .current_dir(&self.directory)
            .process_group(0)
            // The lock is an empty file. As the installer's standard input it stays locked while the installer lives,
            // so that if this process is killed, no other process rebuilds the folder during writes.
            .stdin(copy(&self.lock).map_err(PackageError::io("open", &self.directory))?)
            .stdout(copy(&self.log).map_err(PackageError::io("open", &self.log_path))?)
            .stderr(copy(&self.log).map_err(PackageError::io("open", &self.log_path))?);
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid).env("HOME", &user.home);
        }
        let child = command.spawn().map_err(PackageError::io("start", program))?;
        // On timeout, dropping the group kills it.
        let ended = tokio::time::timeout(self.max_time, ProcessGroup(child).wait()).await;
        let end = match ended {
            Ok(status) => {
                let status = status.map_err(PackageError::io("wait for", program))?;
                if status.success() {
                    return Ok(());
                }
                status.to_string()
            }
            Err(_) => format!("stopped after {} s", self.max_time.as_secs()),
        };
        let output = self.last_lines().map_err(PackageError::io("read", &self.log_path))?;
        Err(PackageError::InstallFailed { installer, end, output, log: self.log_path.clone() })
    }

    fn last_lines(&self) -> io::Result<String> {
        // The setup of a package may have replaced it.
        let bytes = RootedPath::from(self.log_path.clone()).read_tail(SHOWN_BYTES)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"))
    }
}

/// Leader of a process group. Kills the group if dropped before the process has ended.
struct ProcessGroup(Child);

impl ProcessGroup {
    async fn wait(mut self) -> io::Result<std::process::ExitStatus> {
        self.0.wait().await
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // `id` is `None` once the process has been reaped; its ID may then be reused.
        let leader = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader
            && let Err(error) = kill_process_group(leader, Signal::KILL)
        {
            tracing::warn!(process.id = leader.as_raw_nonzero().get(), %error, "cannot kill the installer");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;
    use std::path::Path;

    fn process(directory: &Path) -> InstallerProcess {
        let log_path = directory.join("log");
        InstallerProcess {
            lock: File::create_new(directory.join("lock")).unwrap(),
            log: File::create_new(&log_path).unwrap(),
            log_path,
            directory: directory.to_owned(),
            user: None,
            max_time: Duration::from_secs(60),
        }
    }

    fn shell(script: &str) -> Vec<OsString> {
        ["/bin/sh", "-c", script].map(OsString::from).to_vec()
    }

    #[tokio::test]
    async fn failure_contains_the_last_lines_of_output() {
        let directory = tempfile::tempdir().unwrap();
        let variables = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let error = process(directory.path()).run("pip", &shell("seq 1 100; exit 3"), &variables).await.unwrap_err();
        let PackageError::InstallFailed { installer: "pip", end, output, .. } = error else { panic!("{error}") };
        assert_eq!(end, "exit status: 3");
        assert_eq!(output, (41..=100).map(|line| line.to_string()).collect::<Vec<_>>().join("\n"));
    }

    #[tokio::test]
    async fn dropping_kills_the_group_and_releases_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let variables = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let process = process(directory.path());
        process.lock.lock().unwrap();
        // The script waits for a pipe without writer, so it ends only when it is killed.
        let script = "mkfifo pipe; (cat pipe; touch survived) & wait";
        let argv = shell(script);
        let mut running = Box::pin(process.run("pip", &argv, &variables));
        assert!(poll!(&mut running).is_pending());
        drop(running);
        drop(process);
        // The lock is free once the last killed process has ended.
        super::super::lock::exclusive(&directory.path().join("lock")).await.unwrap();
        assert!(!directory.path().join("survived").exists());
    }
}
