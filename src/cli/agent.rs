//! `tunesmith agent`: runs one attempt of a trial where an engine has started it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::client::http_client;
use super::isolation_args::passed_environment_of_variable;
use tunesmith_agent::{AgentOutcome, AgentSettings, run};

/// The exit code for an attempt that the server does not want any more.
const SUPERSEDED: u8 = 3;
/// The exit code for a server that was not reached for too long.
const OUT_OF_REACH: u8 = 4;

/// Arguments of `tunesmith agent`.
#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// File with the specification of the attempt.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// Folder on a local disk that belongs to this attempt alone.
    #[arg(long, value_name = "FOLDER")]
    spool: PathBuf,
    /// Folder that the agents of this node share, for packages and their environments; default: tunesmith in XDG_CACHE_HOME or
    /// ~/.cache, or else in the spool folder.
    #[arg(long, value_name = "FOLDER", env = "TUNESMITH_AGENT_CACHE")]
    cache: Option<PathBuf>,
    /// Address of the server; default: that in the specification.
    #[arg(long, value_name = "URL", env = "TUNESMITH_SERVER")]
    server: Option<String>,
    /// Token of the attempt; default: that in the specification.
    #[arg(long, value_name = "TOKEN", env = "TUNESMITH_AGENT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// IP address of this machine for the other replicas of the attempt, which have agents of their own; default: that on the way to
    /// the server.
    #[arg(long, value_name = "ADDRESS", env = "TUNESMITH_AGENT_HOST")]
    host: Option<std::net::IpAddr>,
    /// Seconds without an answer of the server after which the program is ended.
    #[arg(long, value_name = "SECONDS", env = "TUNESMITH_AGENT_OUT_OF_REACH", default_value_t = 600.0, value_parser = seconds)]
    out_of_reach: f64,
    /// Milliseconds between two reports.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..))]
    interval_ms: u64,
}

/// Reads a duration in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    parsed.ok_or_else(|| "expected a number of seconds, such as 600".to_owned())
}

/// The folder of this program among the caches of the user.
fn user_cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("tunesmith"))
}

/// Runs an attempt.
pub(super) fn agent(args: AgentArgs) -> anyhow::Result<ExitCode> {
    let spool = std::path::absolute(&args.spool).context("the spool folder has no absolute path")?;
    let cache = args.cache.or_else(user_cache).unwrap_or_else(|| spool.join("cache"));
    let settings = AgentSettings {
        spool,
        cache: std::path::absolute(cache).context("the cache folder has no absolute path")?,
        spec: args.spec,
        server: args.server.filter(|server| !server.is_empty()),
        token: args.token.filter(|token| !token.is_empty()),
        host: args.host,
        out_of_reach: Duration::from_secs_f64(args.out_of_reach),
        interval: Duration::from_millis(args.interval_ms),
        supervisor: std::env::current_exe().context("this program's own file cannot be found")?,
        environment: passed_environment_of_variable()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome =
        runtime.block_on(run(settings, |address| http_client(address).map_err(|error| format!("{error:#}"))))?;
    Ok(match outcome {
        AgentOutcome::Delivered => ExitCode::SUCCESS,
        AgentOutcome::Superseded => ExitCode::from(SUPERSEDED),
        AgentOutcome::OutOfReach => ExitCode::from(OUT_OF_REACH),
    })
}
