//! `tunesmith serve`: serves the jobs and studies of a data folder over HTTP.

mod background;
mod expiry;
#[cfg(feature = "console")]
mod facts;
#[cfg(feature = "optuna")]
mod grpc;
mod listeners;
mod open_files;
mod reload;
mod running;
mod service_manager;
mod signals;

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
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
    /// Address to listen on. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address of the gRPC listener, for Optuna's GrpcStorageProxy. By default, there is none. The protocol has no
    /// credentials: every client that reaches the address can read and change all Optuna studies. Only loopback
    /// addresses are accepted without --grpc-allow-remote.
    #[cfg(feature = "optuna")]
    #[arg(long, value_name = "ADDRESS")]
    grpc_listen: Option<SocketAddr>,
    /// Accept an address other than loopback in --grpc-listen, for a network whose every host is trusted.
    #[cfg(feature = "optuna")]
    #[arg(long, requires = "grpc_listen")]
    grpc_allow_remote: bool,
    /// Fail a running trial of an Optuna study if its worker has sent nothing about it for this many seconds, such as
    /// after a crash. Choose more than the longest time between two reports of an objective. By default, trials never
    /// expire.
    #[cfg(feature = "optuna")]
    #[arg(long, value_name = "SECONDS", requires = "grpc_listen", value_parser = clap::value_parser!(u32).range(1..=2_592_000))]
    optuna_trial_lease: Option<u32>,
    /// Address for clients of Vertex AI whose endpoint cannot have a path. By default, there is none: they use the path
    /// /vertex of --listen.
    #[cfg(feature = "vizier")]
    #[arg(long, value_name = "ADDRESS")]
    vertex_listen: Option<SocketAddr>,
    /// Data folder with jobs, studies and trials.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    copy: CopyArgs,
    /// Seconds after which another server on the same database takes over the jobs and new versions of this one if it has died.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    job_lease: u64,
    /// Number of concurrent jobs with programs on this machine. By default, the number of processors.
    #[arg(long, value_name = "N")]
    job_slots: Option<NonZeroU16>,
    /// Number of concurrent jobs with programs on other machines, run by Slurm, Ray or Kubernetes. They use memory of
    /// this machine, but no processor. 256 by default.
    #[arg(long, value_name = "N")]
    remote_job_slots: Option<NonZeroU16>,
    /// Number of concurrent processes that hold models for prediction, each with a model in its memory.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    prediction_workers: u16,
    /// Memory limit in MiB of a worker of a version without a machine type. By default, half of the machine's memory.
    #[arg(long, value_name = "MIB")]
    prediction_memory: Option<NonZeroU32>,
    /// Limit in MiB of the working folder of a worker, and of each file that it writes.
    #[arg(long, value_name = "MIB", default_value = "10240")]
    prediction_disk: NonZeroU32,
    /// Time limit of a prediction in seconds. A worker that exceeds it is ended and replaced.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    prediction_timeout: u64,
    /// Seconds after which idle workers end, down to the minimum number of their version.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    prediction_idle_timeout: u64,
    /// Certificate chain in PEM format. Enables HTTPS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Folder for a self-signed certificate: certificate.pem and key.pem, created if missing. Enables HTTPS. Clients
    /// trust it with TUNESMITH_CA_FILE=DIR/certificate.pem.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_certificate")]
    tls_self_signed: Option<PathBuf>,
    /// Base URL at which trainers reach the server. By default, http(s)://ADDRESS.
    #[arg(long, value_name = "URL")]
    public_url: Option<Url>,
    /// Additional host name of the server; may be repeated. Loopback names, the address of --listen and the hosts of
    /// --public-url and of agent addresses (--kubernetes-server) are always allowed. Requests to other host names are
    /// rejected, as are requests from web pages of other sites.
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<HostName>,
    /// Folder or bucket that jobs may use as jobDir and in packageUris on a server with tokens: /FOLDER,
    /// gs://BUCKET[/FOLDER] or s3://BUCKET[/FOLDER]; with the prefix PROJECT=, only for jobs of this project. May be
    /// repeated. Jobs on this machine can also use their project's area of the data folder. Without tokens, any folder
    /// is allowed.
    #[arg(long, value_name = "[PROJECT=]FOLDER")]
    allowed_folder: Vec<AllowedFolder>,
    /// Rate limit: maximum number of requests per second and principal; 0 for no limit. No effect without tokens.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    request_rate: u32,
    /// Maximum number of concurrent suggestion requests of a principal, together for at most ten times as many trials;
    /// 0 for no limit. No effect without tokens.
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrent_suggestions: u32,
    /// Request timeout in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    request_timeout: u64,
    /// Memory limit in MiB. Above it, histories and models of the least recently used studies are evicted, and reloaded
    /// from the store on demand.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u16).range(32..))]
    memory: u16,
    /// Maximum number of connections: one per running agent, plus those of users. At most half of the open file limit
    /// (ulimit -Hn), which is the default up to 8192.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Maximum number of connections per client address, such as a load balancer in front of all agents. By default,
    /// half of --connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_per_address: Option<u32>,
    /// Idle timeout: close connections that send no complete request or stop reading, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle_timeout: u64,
    /// Also audit reads, in audit/data_access.jsonl of the data folder. Changes are always audited.
    #[arg(long)]
    data_access_log: bool,
    /// Remove uploaded packages and installed environments that no job has used for this many days. By default, they
    /// are never removed.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    retention: Option<u32>,
    #[command(flatten)]
    logs: LogArgs,
    /// Handling of changes while the audit log is not writable.
    #[arg(long, value_enum, default_value_t = AuditFailure::Refuse)]
    on_audit_failure: AuditFailure,
    /// On SIGINT or SIGTERM, wait for running trials to end. A second signal leaves them to the next server.
    #[arg(long, conflicts_with = "stop_trials")]
    drain: bool,
    /// On SIGINT or SIGTERM, stop running trials; the next server reruns them. A second signal kills them.
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

/// Handling of changes that cannot be audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AuditFailure {
    /// Rejected with status 503; the server is not ready.
    Refuse,
    /// Applied, and audited later if the server is still running.
    Allow,
}

impl ServeArgs {
    /// Memory limit in bytes.
    fn memory_bytes(&self) -> usize {
        usize::from(self.memory) << 20
    }

    /// Effect of the first and second signal on running trials. By default they continue, and the next server adopts
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
    let served = runtime.block_on(running::run(args, settings, known.kept));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(ExitCode::SUCCESS)
}
