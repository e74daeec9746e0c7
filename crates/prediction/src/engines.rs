//! The container engine of this machine, and what a former process has left in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use tokio::sync::OnceCell;
use tunesmith_executor::local::{Engine, Identities, Identity, confine, run_as};

/// Label of containers: the folder of the files of versions, which one process uses at a time.
const LABEL: &str = "tunesmith.models";

/// Options of docker or podman.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Options before the subcommand.
    pub global: Vec<String>,
    /// Options after `run`.
    pub run: Vec<String>,
}

/// Container engine, found on first use. Only a success is final: an engine may be installed later.
#[derive(Debug)]
pub(crate) struct Engines {
    options: EngineOptions,
    label: String,
    identities: Identities,
    variables: BTreeMap<OsString, OsString>,
    engine: OnceCell<Engine>,
}

impl Engines {
    pub(crate) fn new(
        options: EngineOptions,
        folder: &Path,
        identities: Identities,
        variables: BTreeMap<OsString, OsString>,
    ) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let label = format!("{LABEL}={}", folder.display());
        Self { options, label, identities, variables, engine: OnceCell::new() }
    }

    /// The engine, after the removal of the containers of a former process.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) async fn engine(&self) -> Result<&Engine, String> {
        if self.options.run.iter().any(|option| option.ends_with("=host") && option.starts_with("--net"))
            || self.options.run.windows(2).any(|pair| pair[0].starts_with("--net") && pair[1] == "host")
        {
            let text =
                "the option --network=host in --container-run-options: containers of models need ports of their own";
            return Err(text.to_owned());
        }
        self.engine.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Engine, String> {
        let (options, label) = (self.options.clone(), self.label.clone());
        let (identities, variables) = (self.identities.clone(), self.variables.clone());
        let found = tokio::task::spawn_blocking(move || {
            let engine = Engine::find(&options.global, &options.run)?;
            for identity in identities.all() {
                if let Err(error) = remove_left(&engine, &label, &variables, identity) {
                    tracing::warn!(%error, "containers of a former process cannot be removed");
                }
            }
            Some(engine)
        });
        let none = "neither podman nor a docker whose daemon answers was found on the PATH of the server; install podman (for \
                    example `apt-get install podman`), or start docker";
        found.await.map_err(|error| error.to_string())?.ok_or_else(|| none.to_owned())
    }

    /// Value of `--label`.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// A command of `engine` as the user `identity`.
    pub(crate) fn command(&self, engine: &Engine, identity: Option<&Identity>) -> Command {
        command(engine, &self.variables, identity)
    }
}

fn command(engine: &Engine, variables: &BTreeMap<OsString, OsString>, identity: Option<&Identity>) -> Command {
    let mut command = engine.command();
    command.env_clear().envs(variables).current_dir("/").stdin(Stdio::null());
    if let Some(identity) = identity {
        command.envs(identity.variables());
    }
    command
}

fn remove_left(
    engine: &Engine,
    label: &str,
    variables: &BTreeMap<OsString, OsString>,
    identity: Option<&Identity>,
) -> io::Result<()> {
    let run = |args: &[&str]| {
        let mut command = command(engine, variables, identity);
        command.args(args);
        confine(&mut command, identity);
        command.output()
    };
    let listed = run(&["ps", "--all", "--quiet", "--filter", &format!("label={label}")])?;
    if !listed.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
    }
    for id in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
        tracing::info!(container = id, "removing a container of a former process");
        run(&["rm", "--force", id])?;
    }
    Ok(())
}

/// Starts the removal of a container as the user `identity`, which continues even if this process ends. Returns a thread
/// that waits for it.
pub(crate) fn remove(
    engines: &Engines,
    engine: &Engine,
    name: &str,
    identity: Option<&Identity>,
) -> io::Result<JoinHandle<()>> {
    let mut command = engines.command(engine, identity);
    command.args(["rm", "--force", name]).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    run_as(&mut command, identity);
    let mut child = command.spawn()?;
    std::thread::Builder::new().name("container-remove".to_owned()).spawn(move || drop(child.wait()))
}
