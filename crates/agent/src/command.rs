//! Command line of the agent: the subcommand `agent` of `tunesmith` and of `tunesmith-agent`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Builder;

use super::{AgentFailure, AgentOutcome, AgentSettings, run};
use tunesmith_executor::local::PassedEnvironment;

/// Exit code for a superseded attempt.
const SUPERSEDED: u8 = 3;
/// Exit code after the server was unreachable for too long.
const OUT_OF_REACH: u8 = 4;

/// Arguments of the subcommand `agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// File with the specification of the attempt.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// Folder on a local disk, for this attempt only.
    #[arg(long, value_name = "FOLDER")]
    spool: PathBuf,
    /// Folder shared by the agents of this node, for packages and their environments; default: tunesmith in
    /// XDG_CACHE_HOME or ~/.cache, or else in the spool folder.
    #[arg(long, value_name = "FOLDER", env = "TUNESMITH_AGENT_CACHE")]
    cache: Option<PathBuf>,
    /// Address of the server; default: the one in the specification.
    #[arg(long, value_name = "URL", env = "TUNESMITH_SERVER")]
    server: Option<String>,
    /// Token of the attempt; default: the one in the specification.
    #[arg(long, value_name = "TOKEN", env = "TUNESMITH_AGENT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// IP address of this machine for the attempt's other replicas, which have their own agents; default: the address
    /// used to reach the server.
    #[arg(long, value_name = "ADDRESS", env = "TUNESMITH_AGENT_HOST")]
    host: Option<std::net::IpAddr>,
    /// Seconds without a server response after which the program is stopped.
    #[arg(long, value_name = "SECONDS", env = "TUNESMITH_AGENT_OUT_OF_REACH", default_value_t = 600.0, value_parser = seconds)]
    out_of_reach: f64,
    /// Milliseconds between two reports.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..))]
    interval_ms: u64,
}

/// Parses a duration in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    parsed.ok_or_else(|| "expected a number of seconds, such as 600".to_owned())
}

/// Folder of this program in the user's cache folder.
fn user_cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("tunesmith"))
}

impl AgentArgs {
    /// Runs an attempt and returns the exit code.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn run(self) -> Result<ExitCode, AgentFailure> {
        let spool = absolute(&self.spool)?;
        let cache = self.cache.or_else(user_cache).unwrap_or_else(|| spool.join("cache"));
        let settings = AgentSettings {
            spool,
            cache: absolute(&cache)?,
            spec: self.spec,
            server: self.server.filter(|server| !server.is_empty()),
            token: self.token.filter(|token| !token.is_empty()),
            host: self.host,
            out_of_reach: Duration::from_secs_f64(self.out_of_reach),
            interval: Duration::from_millis(self.interval_ms),
            supervisor: std::env::current_exe().map_err(AgentFailure::OwnProgram)?,
            environment: PassedEnvironment::from_variable()?,
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let outcome = runtime.map_err(AgentFailure::Runtime)?.block_on(run(settings))?;
        Ok(match outcome {
            AgentOutcome::Delivered => ExitCode::SUCCESS,
            AgentOutcome::Superseded => ExitCode::from(SUPERSEDED),
            AgentOutcome::OutOfReach => ExitCode::from(OUT_OF_REACH),
        })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, AgentFailure> {
    std::path::absolute(path).map_err(|source| AgentFailure::Folder { path: path.to_owned(), source })
}
