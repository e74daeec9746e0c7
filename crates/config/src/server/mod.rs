//! Reads the configuration of a server: its machines, what the names in requests mean on them, and its limits.
//!
//! Not here: whether the machine has these resources, which the program checks when it starts.

mod executor;
mod file;
mod named;
mod rules;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

pub use self::executor::{EXECUTORS, ExecutorConfig, KubernetesConfig, LOCAL, NamedExecutor, RayConfig, SlurmConfig};
use self::file::ServerFile;
pub use self::file::server_json_schema;
use crate::conversion::Conversion;
use crate::diagnostic::{ConfigErrors, Finding, Source};
use crate::shape::Shape;
use crate::{read_file, yaml};
use tunesmith_api::ai_platform::machines::MachineMap;

static SHAPE: LazyLock<Shape> = LazyLock::new(ServerFile::shape);

/// A valid server configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// What runs the programs.
    pub executor: ExecutorConfig,
    /// What the names of machines mean.
    pub machines: MachineMap,
    /// What the programs on this machine may use together.
    pub capacity: Capacity,
    /// The folders and buckets that jobs may name, as `--allowed-folder` states them.
    pub allowed_folders: Vec<String>,
    /// Limits on what runs and waits at the same time.
    pub limits: Limits,
    /// The longest time that a job or a trial waits.
    pub queue_deadline: Option<Duration>,
}

/// What the programs on this machine may use together. What is `None` is not counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capacity {
    /// Processor time in thousandths of a processor.
    pub milli_cpus: Option<u64>,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The accelerators.
    pub devices: Option<Devices>,
}

/// The accelerators of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// As `nvidia-smi` lists them.
    Discovered,
    /// As the configuration lists them: IDs and kinds.
    Listed(Vec<(String, Option<String>)>),
}

/// Limits on what runs and waits at the same time. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Running trials in all.
    pub running_cluster: Option<u32>,
    /// Running trials of a project.
    pub running_project: Option<u32>,
    /// Running trials of a principal.
    pub running_principal: Option<u32>,
    /// Running trials of a study.
    pub running_study: Option<u32>,
    /// Queued jobs in all.
    pub queued_cluster: Option<u32>,
    /// Queued jobs of a project.
    pub queued_project: Option<u32>,
    /// Queued jobs of a principal.
    pub queued_principal: Option<u32>,
}

/// The executor of a server, as far as it is known without the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownExecutor<'a> {
    /// The one that a flag names, which replaces that of the configuration.
    pub wanted: Option<&'a str>,
    /// The one of the data folder, if neither a flag nor the configuration names one.
    pub kept: Option<&'a str>,
}

/// Reads the server configuration in the file at `path`, for a server with `executor`.
///
/// # Errors
/// [`ConfigErrors`] with all errors.
pub fn load_server(path: &Path, executor: KnownExecutor<'_>) -> Result<ServerConfig, ConfigErrors> {
    parse_server(&path.display().to_string(), &read_file(path)?, executor)
}

/// Parses the server configuration in `text`. Messages name the file `name`.
///
/// # Errors
/// [`ConfigErrors`] with all errors.
pub fn parse_server(name: &str, text: &str, executor: KnownExecutor<'_>) -> Result<ServerConfig, ConfigErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(name, text);
    let (tree, mut findings) = yaml::compose(text);
    let Some(tree) = tree else { return Err(ConfigErrors::new(&source, findings)) };
    let (value, locations) = Conversion::of_shape(&mut findings, &SHAPE).file(&tree);
    let file: ServerFile = match serde_json::from_value(value) {
        Ok(file) => file,
        Err(error) => {
            // The conversion returns only valid values. If it has a fault, serde's message is reported.
            findings.push(Finding::error("", tree.span.clone(), error.to_string(), "a server configuration"));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    let configured = file.executor.clone();
    let executor = executor.wanted.or(configured.as_deref()).or(executor.kept).unwrap_or(LOCAL).to_owned();
    let config = rules::Rules::new(&locations, &executor, &mut findings).config(file);
    if findings.is_empty() { Ok(config) } else { Err(ConfigErrors::new(&source, findings)) }
}
