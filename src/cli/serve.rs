//! `tunesmith serve`: serves the jobs and studies of a data folder over HTTP.

mod background;
#[cfg(feature = "console")]
mod facts;
mod open_files;
mod running;
mod signals;

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Url;

use super::BAD_INPUT;
use super::executor_args::ExecutorArgs;
use super::folder_args::{ContainerArgs, CopyArgs, DEFAULT_DATA_DIR, ServerConfigArgs, StoreArgs};
use super::isolation_args::{EnvironmentArgs, IdentityArgs};
use super::log_args::LogArgs;
use super::output::notice;
use crate::executors::{self, ExecutorKind};
use tunesmith_config::KnownExecutor;
use tunesmith_http::HostName;
use tunesmith_jobs::Control;
use tunesmith_jobs::allowed_folders::AllowedFolder;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on. Port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Data folder with jobs, studies and trials.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    copy: CopyArgs,
    /// Seconds after which another server on the same database continues the jobs of this one if it has died.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    job_lease: u64,
    /// Number of jobs to run at once whose programs run on this machine. The number of processors by default.
    #[arg(long, value_name = "N")]
    job_slots: Option<NonZeroU16>,
    /// Number of jobs to run at once whose programs run on other machines, by Slurm, Ray or Kubernetes. They take memory of this
    /// machine, but no processor. 256 by default.
    #[arg(long, value_name = "N")]
    remote_job_slots: Option<NonZeroU16>,
    /// Certificate chain in PEM format. Enables HTTPS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Folder of a certificate that the server makes for itself, unless it exists: certificate.pem and key.pem.
    /// Enables HTTPS. Clients trust it with TUNESMITH_CA_FILE=DIR/certificate.pem.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_certificate")]
    tls_self_signed: Option<PathBuf>,
    /// Base URL under which trainers reach the server. http(s)://ADDRESS by default.
    #[arg(long, value_name = "URL")]
    public_url: Option<Url>,
    /// Another name under which clients address the server; may be repeated. Loopback names, the address of --listen and
    /// the hosts of --public-url and of the addresses for agents (--kubernetes-server) need not be given. Requests for other names are refused, as are those of web pages.
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<HostName>,
    /// Folder or bucket that jobs may name as jobDir and in packageUris on a server with tokens: /FOLDER, gs://BUCKET[/FOLDER] or
    /// s3://BUCKET[/FOLDER]; with PROJECT= before it, for jobs of this project only. May be given several times. Jobs on this
    /// machine also have an area of their project in the data folder. Without tokens, any folder is allowed.
    #[arg(long, value_name = "[PROJECT=]FOLDER")]
    allowed_folder: Vec<AllowedFolder>,
    /// Maximum number of requests per second and principal; 0 for any number. Has no effect without tokens.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    request_rate: u32,
    /// Maximum number of suggestions that a principal waits for at once, together of at most ten times as many trials; 0 for
    /// any number. Has no effect without tokens.
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrent_suggestions: u32,
    /// Maximum duration of a request in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    request_timeout: u64,
    /// Memory budget in MiB. When the process holds more, histories and models of the least recently used studies are
    /// dropped, and read from the store again at their next use.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(32..))]
    memory: u16,
    /// Maximum number of connections, one for each running agent and more for people. At most half of the files that the process may
    /// open (ulimit -Hn), which is the default, up to 8192.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Maximum number of connections of one address, such as that of a load balancer before all agents. Half of --connections by
    /// default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_per_address: Option<u32>,
    /// Seconds after which a connection is closed whose client sends no complete head of a request or takes no response.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle_timeout: u64,
    /// Also record reading requests, in audit/data_access.jsonl of the data folder. Changes are always recorded.
    #[arg(long)]
    data_access_log: bool,
    /// Remove uploaded packages and installed environments that no job has used for this time. They are kept by
    /// default.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    retention: Option<u32>,
    #[command(flatten)]
    logs: LogArgs,
    /// What happens to changes while the audit log cannot be written.
    #[arg(long, value_enum, default_value_t = AuditFailure::Refuse)]
    on_audit_failure: AuditFailure,
    /// At SIGINT or SIGTERM, wait until the running trials have ended. A second signal leaves them to the next server.
    #[arg(long, conflicts_with = "stop_trials")]
    drain: bool,
    /// At SIGINT or SIGTERM, stop the running trials; the next server runs them again. A second signal kills them.
    #[arg(long)]
    stop_trials: bool,
    #[command(flatten)]
    server_config: ServerConfigArgs,
    #[command(flatten)]
    container: ContainerArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    executor: ExecutorArgs,
}

/// What happens to changes that cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AuditFailure {
    /// They are refused with status 503, and the server is not ready.
    Refuse,
    /// They are made, and recorded later if the server is still running.
    Allow,
}

impl ServeArgs {
    /// The memory budget in bytes.
    fn memory_bytes(&self) -> usize {
        usize::from(self.memory) << 20
    }

    /// What the first and the second signal do to the running trials. By default they run on, and the next server adopts
    /// them.
    fn ends(&self) -> [Control; 2] {
        match (self.drain, self.stop_trials) {
            (true, _) => [Control::Drain, Control::Detach],
            (false, true) => [Control::Interrupt, Control::Kill],
            (false, false) => [Control::Detach, Control::Detach],
        }
    }
}

/// Serves until SIGINT or SIGTERM. Requests in flight are answered before the function returns.
pub(super) fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let kept = executors::kept(&args.data_dir)?;
    let known = KnownExecutor { wanted: args.executor.name(), kept: kept.map(ExecutorKind::as_str) };
    let settings = match args.server_config.settings(known) {
        Ok(settings) => settings,
        Err(error) => {
            notice(&format!("{:#}", anyhow::Error::from(error)));
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(running::run(args, settings));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(ExitCode::SUCCESS)
}
