//! Detection of a container engine, and its command lines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use super::launch::replica_name;
use super::system::become_user;
use crate::{ExecutorJobSpec, Program, Replica};

/// Container engine with docker's command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    program: PathBuf,
    /// Options after `run`.
    run_options: Vec<String>,
    /// Options before the subcommand.
    global_options: Vec<String>,
}

/// Error message without an engine.
pub(super) const NONE_FOUND: &str = "it is a container, but neither podman nor a docker whose daemon answers was \
    found on PATH; install podman (for example `apt-get install podman`), or start docker, and try again";

impl Engine {
    /// Searches PATH for docker, then podman, and checks that the program works with `global_options`. The options
    /// select the engine, since those of one are errors for the other. Blocks while the program runs.
    pub fn find(global_options: &[String], run_options: &[String]) -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        for (name, probe) in [("docker", &["info"][..]), ("podman", &["--version"])] {
            let Some(program) = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
            else {
                continue;
            };
            let mut command = Command::new(&program);
            command.args(global_options).args(probe).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            match command.status() {
                Ok(status) if status.success() => {
                    return Some(Self {
                        program,
                        run_options: run_options.to_vec(),
                        global_options: global_options.to_vec(),
                    });
                }
                result => tracing::debug!(engine = %program.display(), ?result, "the container engine does not work"),
            }
        }
        None
    }

    /// The engine's program with its global options, for a subcommand.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.global_options);
        command
    }

    /// Options after `run`.
    pub fn run_options(&self) -> &[String] {
        &self.run_options
    }

    /// Command that runs `replica` in the foreground. `variables` are passed by name, with values in the command's
    /// environment, so that no process list shows them.
    pub(super) fn run(
        &self,
        spec: &ExecutorJobSpec,
        token: &str,
        replica: &Replica,
        variables: impl Iterator<Item = String>,
    ) -> Option<Command> {
        let Program::Container { image, command, args, mounts } = &replica.program else { return None };
        let mut line = self.command();
        line.args(["run", "--rm", "--network=host", "--name"]);
        line.arg(container_name(spec, token, replica));
        for variable in variables {
            line.arg("--env").arg(variable);
        }
        for mount in mounts {
            line.arg("--volume").arg(same_path(mount));
        }
        for (path, folder) in &replica.volumes {
            // Unlike `--volume`, docker creates no missing folder.
            line.arg("--mount").arg(format!("type=bind,source={},target={path}", folder.display()));
        }
        line.args(&self.run_options);
        if let Some((entry_point, rest)) = command.split_first() {
            line.arg("--entrypoint").arg(entry_point).arg(image).args(rest);
        } else {
            line.arg(image);
        }
        line.args(args);
        Some(line)
    }

    /// Forcibly removes the containers of `spec`, as the user `identity` that started them. Missing containers are not
    /// an error.
    pub(super) fn remove(&self, spec: &ExecutorJobSpec, token: &str, identity: Option<&Identity>) {
        let containers =
            spec.own_replicas().iter().filter(|replica| matches!(replica.program, Program::Container { .. }));
        for replica in containers {
            let name = container_name(spec, token, replica);
            let mut command = self.command();
            command.args(["rm", "--force", &name]);
            become_user(&mut command, identity, None);
            if let Some(identity) = identity {
                command.envs(identity.variables());
            }
            // After every normal end, the output is "no such container".
            let result = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if let Err(error) = result {
                tracing::warn!(container.name = name, %error, "the container could not be removed");
            }
        }
    }
}

/// Container name: the attempt and a part of its token, unique across data folders.
fn container_name(spec: &ExecutorJobSpec, token: &str, replica: &Replica) -> String {
    let name = format!("{}-{}-{}", spec.id, token.get(..8).unwrap_or(token), replica_name(replica));
    // Characters allowed in names of projects and jobs, but not of containers.
    name.replace(['~', ':'], ".")
}

fn same_path(path: &Path) -> std::ffi::OsString {
    let mut text = path.as_os_str().to_owned();
    text.push(":");
    text.push(path);
    text
}
