//! Container engines: finding one, and the command lines it is given.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::launch::replica_name;
use crate::{ExecutorJobSpec, Program, Replica};

/// A container engine with docker's command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Engine {
    /// The program.
    program: PathBuf,
    /// Put after `run`.
    run_options: Vec<String>,
    /// Put before the subcommand.
    global_options: Vec<String>,
}

/// What to say when there is none.
pub(super) const NONE_FOUND: &str = "it is a container, but neither podman nor a docker whose daemon answers was \
    found on PATH; install podman (for example `apt-get install podman`), or start docker, and try again";

impl Engine {
    /// Looks for docker, then podman, and asks each whether it works with `global_options`: those of one are errors to
    /// the other, so they choose it. Takes as long as they do to answer.
    pub(super) fn find(global_options: &[String], run_options: &[String]) -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        for (name, question) in [("docker", &["info"][..]), ("podman", &["--version"])] {
            let Some(program) = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
            else {
                continue;
            };
            let mut command = Command::new(&program);
            command
                .args(global_options)
                .args(question)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            match command.status() {
                Ok(status) if status.success() => {
                    return Some(Self {
                        program,
                        run_options: run_options.to_vec(),
                        global_options: global_options.to_vec(),
                    });
                }
                answer => tracing::debug!(engine = %program.display(), ?answer, "this container engine does not work"),
            }
        }
        None
    }

    /// The command that runs `replica` in the foreground. `variables` are passed by name: their values are in the
    /// environment of the command, where no process list shows them.
    pub(super) fn run(
        &self,
        spec: &ExecutorJobSpec,
        token: &str,
        replica: &Replica,
        variables: impl Iterator<Item = String>,
    ) -> Option<Command> {
        let Program::Container { image, command, args, mounts } = &replica.program else { return None };
        let mut line = Command::new(&self.program);
        line.args(&self.global_options).args(["run", "--rm", "--network=host", "--name"]);
        line.arg(container_name(spec, token, replica));
        for variable in variables {
            line.arg("--env").arg(variable);
        }
        for mount in mounts {
            line.arg("--volume").arg(same_path(mount));
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

    /// Removes the containers of `spec`, whatever they are doing. Containers that are gone already are no error.
    pub(super) fn remove(&self, spec: &ExecutorJobSpec, token: &str) {
        let containers = spec.replicas.iter().filter(|replica| matches!(replica.program, Program::Container { .. }));
        for replica in containers {
            let name = container_name(spec, token, replica);
            let mut command = Command::new(&self.program);
            command.args(&self.global_options).args(["rm", "--force", &name]);
            // The output says "no such container" after every orderly end.
            let result = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if let Err(error) = result {
                tracing::warn!(container.name = name, %error, "the container could not be removed");
            }
        }
    }
}

/// The attempt's name, told apart from those of other data folders by a part of its token.
fn container_name(spec: &ExecutorJobSpec, token: &str, replica: &Replica) -> String {
    let name = format!("{}-{}-{}", spec.id, token.get(..8).unwrap_or(token), replica_name(replica));
    // What a name of a project and a job may have, and that of a container may not.
    name.replace(['~', ':'], ".")
}

fn same_path(path: &Path) -> std::ffi::OsString {
    let mut text = path.as_os_str().to_owned();
    text.push(":");
    text.push(path);
    text
}
