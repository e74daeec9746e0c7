//! Server configuration: machines, the mapping of names in requests to them, and limits.
//!
//! The program checks on start-up whether the machine has these resources.

mod executor;
mod file;
mod named;
mod rules;
#[cfg(test)]
mod tests;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

pub use self::executor::{
    EXECUTORS, ExecutorConfig, KubernetesConfig, LOCAL, NamedExecutor, RayConfig, SlurmConfig, Words,
};
use self::file::ServerFile;
pub use self::file::server_json_schema;
pub use self::webhooks::WebhookConfig;
use crate::conversion::Conversion;
use crate::diagnostic::{ConfigErrors, Finding, Source};
use crate::shape::Shape;
use crate::{read_file, yaml};
use tunesmith_api::ai_platform::machines::MachineMap;

static SHAPE: LazyLock<Shape> = LazyLock::new(ServerFile::shape);

#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    pub executor: ExecutorConfig,
    pub machines: MachineMap,
    /// Total capacity of this machine for programs.
    pub capacity: Capacity,
    /// Folders and buckets that jobs may use, as in `--allowed-folder`.
    pub allowed_folders: Vec<String>,
    /// Limits on concurrent and queued work.
    pub limits: Limits,
    /// Maximum time in the queue for a job or trial.
    pub queue_deadline: Option<Duration>,
    pub audit: AuditFiles,
    pub retention: Retention,
    pub open_id_connect: Option<OpenIdConnect>,
    pub webhooks: Vec<WebhookConfig>,
}

/// Sign-in at an OpenID Connect provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdConnect {
    pub issuer: String,
    pub client_id: String,
    pub client_secret_file: Option<PathBuf>,
    /// Name of the provider for people.
    pub name: String,
    /// Scopes beside `openid`.
    pub scopes: Vec<String>,
    /// Claim that names the principal, if configured.
    pub principal_claim: Option<String>,
    /// Claim with the groups, if configured.
    pub groups_claim: Option<String>,
    /// Roles by group, as written.
    pub group_roles: BTreeMap<String, Vec<String>>,
    /// Roles of everyone, as written.
    pub roles: Vec<String>,
}

/// Ends and retention of the files of an audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditFiles {
    /// Size from which the log is continued in a new file, in bytes.
    pub max_bytes: u64,
    /// Age of the first record from which the log is continued in a new file.
    pub max_age: Duration,
    /// Time after its end for which a file is kept; `None`: forever.
    pub retention: Option<Duration>,
}

impl Default for AuditFiles {
    /// Guesses: a month, or some 200,000 records, can be searched with common tools.
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_age: 30 * DAY, retention: None }
    }
}

/// Retention of ended work; `None`: forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Time after the end of a job.
    pub jobs: Option<Duration>,
    /// Time after the last activity in a study that belongs to no job.
    pub studies: Option<Duration>,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Total capacity of this machine for programs. `None` is not counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capacity {
    /// Processor time in thousandths of a processor.
    pub milli_cpus: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub devices: Option<Devices>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// As `nvidia-smi` lists them.
    Discovered,
    /// IDs and kinds from the configuration.
    Listed(Vec<(String, Option<String>)>),
}

/// Limits on concurrent and queued work; `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub running_cluster: Option<u32>,
    pub running_project: Option<u32>,
    pub running_principal: Option<u32>,
    pub running_study: Option<u32>,
    pub queued_cluster: Option<u32>,
    pub queued_project: Option<u32>,
    pub queued_principal: Option<u32>,
}

/// Executor of a server, from sources other than the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownExecutor<'a> {
    /// From a flag; overrides the configuration.
    pub wanted: Option<&'a str>,
    /// From the data folder; used if neither a flag nor the configuration names one.
    pub kept: Option<&'a str>,
}

/// Reads the server configuration at `path`, for a server with `executor`.
///
/// # Errors
/// [`ConfigErrors`] with all errors.
pub fn load_server(path: &Path, executor: KnownExecutor<'_>) -> Result<ServerConfig, ConfigErrors> {
    parse_server(&path.display().to_string(), &read_file(path)?, executor)
}

/// Parses a server configuration. Messages refer to the file as `name`.
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
            // Cannot fail after conversion; if it does, report serde's message.
            findings.push(Finding::error("", tree.span.clone(), error.to_string(), "a server configuration"));
            return Err(ConfigErrors::new(&source, findings));
        }
    };
    let configured = file.executor.clone();
    let executor = executor.wanted.or(configured.as_deref()).or(executor.kept).unwrap_or(LOCAL).to_owned();
    let config = rules::Rules::new(&locations, &executor, &mut findings).config(file);
    if findings.is_empty() { Ok(config) } else { Err(ConfigErrors::new(&source, findings)) }
}
