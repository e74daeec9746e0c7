//! `tunesmith serve`: serves the jobs and studies of a data folder over HTTP.

mod facts;
mod signals;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use self::signals::{EndSignals, failing_writes_beyond_limits};
use super::BAD_INPUT;
use super::executor_args::ExecutorArgs;
use super::folder_args::{ContainerArgs, CopyArgs, DEFAULT_DATA_DIR, ServerConfigArgs, StoreArgs};
use super::isolation_args::{EnvironmentArgs, IdentityArgs};
use super::log_args::{self, LogArgs};
use super::output::{notice, print};
use super::self_signed;
use crate::composition::{self, AccessSettings, Isolation};
use crate::copied;
use crate::data_dir::DataDir;
#[cfg(feature = "postgres")]
use crate::data_dir::StoreKind;
use crate::executors::{self, ExecutorKind, ExecutorOptions};
use crate::memory;
use crate::server_settings::ServerSettings;
use tunesmith_config::KnownExecutor;
use tunesmith_http::accept;
use tunesmith_http::agent_relay::answer_other_servers;
use tunesmith_http::authorization::Access;
use tunesmith_http::connection_limits::ConnectionLimits;
use tunesmith_http::listener::Connections;
use tunesmith_http::server::{self, ServiceAccess};
use tunesmith_http::web_pages::{AllowedHosts, HostName};
use tunesmith_packages::Environments;
use tunesmith_service::Control;
use tunesmith_service::allowed_folders::{AllowedFolder, AllowedFolders};
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::jobs::{Jobs, QueueSettings};
use tunesmith_service::packages::Packages;
use tunesmith_service::studies::Studies;
use tunesmith_store::{Condition, StoreFault};

/// Interval between two checks of the leases.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two searches for unused packages.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The time in which requests are answered after the store has stopped.
const LAST_RESPONSES: Duration = Duration::from_millis(500);

/// The largest number of connections by default. A guess, far above the agents of a cluster.
const DEFAULT_CONNECTIONS: usize = 8192;

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
    /// Enables HTTPS. Clients trust it with SSL_CERT_FILE=DIR/certificate.pem.
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
    /// open (ulimit -n), which is the default, up to 8192.
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
    let served = runtime.block_on(run(args, settings));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &ServeArgs, settings: ServerSettings) -> anyhow::Result<()> {
    let memory = usize::from(args.memory) << 20;
    let who = format!("tunesmith serve --listen {}", args.listen);
    let data_dir = Arc::new(DataDir::open(&args.data_dir, args.store.source()?, &who)?);
    copied::settle(&data_dir, &*data_dir.store().await?, args.copy.resume_copied, |_| true).await?;
    share_tokens(&data_dir).await?;
    let access = access(args, &data_dir)?;
    let principals = access.authenticator.valid_principals(SystemClock.now())?;
    let executor = args.executor.options(&settings.executor)?;
    let hosts = hosts(args, &executor)?;
    let unisolated = executors::unisolated(data_dir.path(), &executor, &settings.machines.other_executors())?;
    let isolation = args.identity.isolation(&args.environment, principals, unisolated.as_deref())?;
    let listed = settings.allowed_folders.clone();
    let allowed_folders = Arc::new(allowed_folders(args, &settings, &data_dir)?);
    let isolation = Isolation { allowed_folders, ..isolation };
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let limits = connection_limits(args);
    let pair = certificate(args)?;
    let connections = match &pair {
        Some((certificate, key)) => Connections::tls(listener, limits, certificate, key)?,
        None => Connections::plain(listener, limits),
    };
    let scheme = if pair.is_some() { "https" } else { "http" };
    let endpoint = match &args.public_url {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => format!("{scheme}://{}", reachable(address)),
    };
    let endpoint_is_secure = endpoint.starts_with("https:");
    let container = args.container.options()?;
    let lease = Duration::from_secs(args.job_lease);
    let application =
        composition::compose_shared(&data_dir, container, isolation, executor, settings, memory, lease).await?;
    application.packages.remove_unfinished()?;
    application.studies.check_leases().await?;
    let jobs = Arc::clone(&application.jobs);
    jobs.leave_jobs_of_others().await?;
    jobs.resume_unfinished().await?;
    application.studies.resume_suggestions().await?;
    let pruner = args.retention.map(|days| {
        let retention = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        tokio::spawn(prune(
            Arc::clone(&jobs),
            application.packages.clone(),
            Arc::clone(&application.environments),
            retention,
        ))
    });
    let listens_on = format!("{scheme}://{address}");
    let facts = facts::facts(args, &listed, &data_dir, &application, listens_on, endpoint.clone(), &limits);
    let (set_control, control) = watch::channel(Control::Run);
    let slots = composition::slots(args.job_slots, args.remote_job_slots);
    let running = tokio::spawn(async move { jobs.run(QueueSettings { endpoint, slots }, control).await });
    let sweeper = tokio::spawn(sweep(Arc::clone(&application.studies)));
    let log_limiter = tokio::spawn(log_args::keep(Arc::clone(&application.jobs), args.logs.limits()));
    let memory_check = tokio::spawn(memory::keep(Arc::clone(&application.studies), memory));
    print(&format!("listening on {scheme}://{address}\n"))?;
    let mut signals = EndSignals::new()?;
    let _writes_beyond_limits_fail = failing_writes_beyond_limits()?;
    let store_stopped = until_stopped(application.store.condition());
    let (all_ended, jobs_ended) = oneshot::channel();
    let (end_console, console_ended) = watch::channel(false);
    let ends = args.ends();
    let ended = async move {
        signals.next().await;
        notice(ending_text(ends[0]));
        // The server takes reports until the programs that it waits for have ended.
        set_control.send_replace(ends[0]);
        let second = tokio::spawn(async move {
            signals.next().await;
            notice(ending_text(ends[1]));
            set_control.send_replace(ends[1]);
        });
        if let Err(error) = running.await {
            tracing::error!(error = &error as &dyn std::error::Error, "running the jobs stopped unexpectedly");
        }
        second.abort();
        end_console.send_replace(true);
        let _ = all_ended.send(());
    };
    let mut store_stopped = pin!(store_stopped);
    let service = application.http_service(
        ServiceAccess::Checked(Box::new(access)),
        Some(hosts),
        Duration::from_secs(args.request_timeout),
    )?;
    let console = tunesmith_console::Services {
        server: Some(facts),
        jobs: Arc::clone(&service.jobs),
        studies: Arc::clone(&service.studies),
        clock: Arc::clone(&service.clock),
        is_secure: endpoint_is_secure,
        ended: console_ended,
    };
    let answering = tokio::spawn(answer_other_servers(service.agents.clone()));
    let router = server::router_with_pages(service, |pages| tunesmith_console::router(console, pages));
    let serving = accept::serve(connections, router, Duration::from_secs(args.idle_timeout), ended);
    // Connections that are open longer than any request may take are closed.
    let longest = Duration::from_secs(args.request_timeout) + SWEEP_INTERVAL;
    let cut_off = async move {
        let _ = jobs_ended.await;
        tokio::time::sleep(longest).await;
    };
    tokio::select! {
        () = serving => {}
        fault = &mut store_stopped => {
            // Responses that wait for the store are sent before the process ends.
            tokio::time::sleep(LAST_RESPONSES).await;
            return Err(anyhow::Error::from(fault)).context("the store has stopped; restart the server");
        }
        () = cut_off => tracing::warn!("connections were closed before they ended"),
    }
    sweeper.abort();
    if let Some(pruner) = pruner {
        pruner.abort();
    }
    log_limiter.abort();
    answering.abort();
    memory_check.abort();
    Ok(())
}

/// Returns the paths of the certificate and the key, if the server uses HTTPS.
fn certificate(args: &ServeArgs) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    if let Some(folder) = &args.tls_self_signed {
        let host = args.public_url.as_ref().and_then(Url::host_str);
        let pair = self_signed::pair(folder, args.listen.ip(), host)?;
        return Ok(Some((pair.certificate, pair.key)));
    }
    Ok(args.tls_certificate.clone().zip(args.tls_key.clone()))
}

/// Returns the limits on connections, which leave half of the files that this process may open to the jobs and the store.
fn connection_limits(args: &ServeArgs) -> ConnectionLimits {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = files.map_or(usize::MAX, |files| usize::try_from(files / 2).unwrap_or(usize::MAX)).max(1);
    let wanted = args.connections.map_or(half.min(DEFAULT_CONNECTIONS), count);
    if half < wanted {
        tracing::warn!("the limit of open files allows {half} connections, not {wanted}: raise it with ulimit -n");
    }
    let total = wanted.min(half);
    ConnectionLimits { total, per_address: args.connections_per_address.map_or(total.div_ceil(2), count) }
}

/// Returns the names of the server. Agents reach it under those in the settings of their executors.
fn hosts(args: &ServeArgs, executor: &ExecutorOptions) -> anyhow::Result<AllowedHosts> {
    let mut configured = args.allowed_host.clone();
    // An address without a host is refused where the executor is built.
    let of_agents = executor.servers().filter_map(|server| server.parse::<Url>().ok()?.host_str()?.parse().ok());
    configured.extend(of_agents);
    if let Some(url) = &args.public_url {
        let host = url.host_str().with_context(|| format!("--public-url {url}: a host is missing"))?;
        configured.push(host.parse().with_context(|| format!("--public-url {url}"))?);
    }
    Ok(AllowedHosts::new(args.listen.ip(), configured))
}

/// Builds the access rules. Without a valid token, only the loopback interface is allowed.
fn access(args: &ServeArgs, data_dir: &DataDir) -> anyhow::Result<Access> {
    let authenticator = composition::authenticator(data_dir)?;
    if !args.listen.ip().is_loopback() && authenticator.has_no_valid_token(SystemClock.now())? {
        bail!(
            "--listen {}: without a token, every client that reaches this address has all permissions; make a token \
             first (tunesmith tokens create --data-dir {}) or listen on the loopback interface (127.0.0.1 or [::1])",
            args.listen,
            args.data_dir.display()
        );
    }
    let settings = AccessSettings {
        request_rate: NonZeroU32::new(args.request_rate),
        concurrent_suggestions: NonZeroU32::new(args.concurrent_suggestions),
        records_reads: args.data_access_log,
        refuses_unrecorded: args.on_audit_failure == AuditFailure::Refuse,
    };
    composition::access(data_dir, authenticator, settings)
}

/// Returns the folders and buckets that jobs may name: any, until the first token has been created.
fn allowed_folders(args: &ServeArgs, settings: &ServerSettings, data_dir: &DataDir) -> anyhow::Result<AllowedFolders> {
    let listed = settings.allowed_folders.iter().chain(&args.allowed_folder).cloned().collect();
    let authenticator = composition::authenticator(data_dir)?;
    let applies = Box::new(move || authenticator.requires_tokens());
    AllowedFolders::new(listed, data_dir.path(), applies).context("allowed folders")
}

/// Returns the address under which a program on this machine reaches a server that listens on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Copies the tokens that servers share to the data folder, now and from then on.
#[cfg(feature = "postgres")]
async fn share_tokens(data_dir: &DataDir) -> anyhow::Result<()> {
    if data_dir.kind() == StoreKind::Postgres {
        data_dir.store().await?;
    }
    if let Some(shared) = data_dir.shared_store() {
        let documents = Arc::new(tunesmith_store::PostgresDocuments::new(shared));
        let tokens = crate::shared_tokens::SharedTokens::new(documents, data_dir.path());
        tokens.pull().await?;
        tokio::spawn(tokens.follow());
    }
    Ok(())
}

#[cfg(not(feature = "postgres"))]
async fn share_tokens(_data_dir: &DataDir) -> anyhow::Result<()> {
    Ok(())
}

/// Expires the leases of clients that have not reported in time.
async fn sweep(studies: Arc<Studies>) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = studies.check_leases().await {
            tracing::error!(error = &error as &dyn std::error::Error, "the leases could not be checked");
        }
    }
}

/// Removes the packages and environments that no job has used for the time `retention`, at once and every hour.
async fn prune(jobs: Arc<Jobs>, packages: Packages, environments: Arc<Environments>, retention: Duration) {
    let mut interval = tokio::time::interval(PRUNE_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = prune_once(&jobs, packages.clone(), Arc::clone(&environments), retention).await {
            tracing::error!(error = format!("{error:#}"), "unused packages could not be removed");
        }
    }
}

async fn prune_once(
    jobs: &Jobs,
    packages: Packages,
    environments: Arc<Environments>,
    retention: Duration,
) -> anyhow::Result<()> {
    let unused_since = SystemTime::from(jobs.unused_since(retention).await?);
    let unused_for = SystemTime::now().duration_since(unused_since).unwrap_or(retention);
    for name in packages.prune_shared(unused_for).await? {
        tracing::info!(package.name = name, "removed, since no job has used it");
    }
    let remove = move || anyhow::Ok((packages.prune(unused_since)?, environments.prune(unused_since)?));
    let (packages, environments) = tokio::task::spawn_blocking(remove).await??;
    for path in packages.iter().chain(&environments) {
        tracing::info!(path = %path.display(), "removed, since no job has used it");
    }
    Ok(())
}

/// States what happens to the running trials when the server ends.
fn ending_text(control: Control) -> &'static str {
    match control {
        Control::Drain => "ending after the running trials; another signal leaves them to the next server",
        Control::Interrupt => "ending, and stopping the running trials; another signal kills them",
        Control::Kill => "killing the running trials",
        Control::Run | Control::Detach => "ending; running trials go on, and the next server adopts them",
    }
}

/// Waits until the store takes no changes until it is opened again, and returns the reason.
async fn until_stopped(mut condition: watch::Receiver<Condition>) -> StoreFault {
    match condition.wait_for(|now| matches!(now, Condition::Stopped(_))).await.as_deref() {
        Ok(Condition::Stopped(fault)) => fault.clone(),
        Ok(_) | Err(_) => std::future::pending().await,
    }
}
