//! `tunesmith serve`: serves the jobs and studies of a data folder over HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::folder_args::{ContainerArgs, DEFAULT_DATA_DIR, StoreChoice};
use super::output::print;
use crate::composition::{self, AccessSettings};
use crate::data_dir::DataDir;
use tunesmith_http::authorization::Access;
use tunesmith_http::listener::{Connections, Peer};
use tunesmith_http::server;
use tunesmith_service::Control;
use tunesmith_service::clock::{Clock, SystemClock};
use tunesmith_service::jobs::QueueSettings;
use tunesmith_service::studies::Studies;
use tunesmith_store::{Condition, StoreFault};

/// Interval between two checks of the leases.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The time in which requests are answered after the store has stopped.
const LAST_RESPONSES: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on. Port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Data folder with jobs, studies and trials.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// Kind of store for a new data folder. An existing folder keeps its kind.
    #[arg(long, value_enum, default_value_t = StoreChoice::Sqlite)]
    store: StoreChoice,
    /// Number of jobs to run at once. The number of processors by default.
    #[arg(long, value_name = "N")]
    job_slots: Option<NonZeroU16>,
    /// Certificate chain in PEM format. Enables HTTPS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Base URL under which trainers reach the server. http(s)://ADDRESS by default.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Maximum number of requests per second and principal; 0 for any number. Has no effect without tokens.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    request_rate: u32,
    /// Maximum number of suggestions that a principal waits for at once; 0 for any number. Has no effect without
    /// tokens.
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrent_suggestions: u32,
    /// Maximum duration of a request in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    request_timeout: u64,
    /// Also record reading requests, in audit/data_access.jsonl of the data folder. Changes are always recorded.
    #[arg(long)]
    data_access_log: bool,
    #[command(flatten)]
    container: ContainerArgs,
}

/// Serves until SIGINT or SIGTERM. Requests in flight are answered before the function returns.
pub(super) fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(run(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let who = format!("tunesmith serve --listen {}", args.listen);
    let data_dir = Arc::new(DataDir::open(&args.data_dir, args.store.kind(), &who)?);
    let access = access(args, &data_dir)?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let connections = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Connections::tls(listener, certificate, key)?,
        _ => Connections::Plain(listener),
    };
    let scheme = if args.tls_certificate.is_some() { "https" } else { "http" };
    let endpoint = args.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", reachable(address)));
    let application = composition::compose(&data_dir, args.container.options()).await?;
    application.packages.remove_unfinished()?;
    application.studies.renew_leases_of_former_process().await?;
    let jobs = Arc::clone(&application.jobs);
    jobs.resume_unfinished().await?;
    let (set_control, control) = watch::channel(Control::Run);
    let slots = args.job_slots.map_or_else(composition::processors, NonZeroUsize::from);
    let running = tokio::spawn(async move { jobs.run(QueueSettings { endpoint, slots }, control).await });
    let sweeper = tokio::spawn(sweep(Arc::clone(&application.studies)));
    print(&format!("listening on {scheme}://{address}\n"))?;
    let end = end_signal()?;
    let _writes_beyond_limits_fail = failing_writes_beyond_limits()?;
    let store_stopped = until_stopped(application.store.condition());
    let (all_ended, jobs_ended) = oneshot::channel();
    let ended = async move {
        end.await;
        // The server takes reports until the running programs have ended.
        set_control.send_replace(Control::Interrupt);
        if let Err(error) = running.await {
            tracing::error!(error = &error as &dyn std::error::Error, "running the jobs stopped unexpectedly");
        }
        let _ = all_ended.send(());
    };
    let mut store_stopped = pin!(store_stopped);
    let service = application.http_service(Some(access), Duration::from_secs(args.request_timeout))?;
    let service = server::router(service).into_make_service_with_connect_info::<Peer>();
    let serving = axum::serve(connections, service).with_graceful_shutdown(ended);
    // Connections that are open longer than any request may take are closed.
    let longest = Duration::from_secs(args.request_timeout) + SWEEP_INTERVAL;
    let cut_off = async move {
        let _ = jobs_ended.await;
        tokio::time::sleep(longest).await;
    };
    tokio::select! {
        served = serving => served?,
        fault = &mut store_stopped => {
            // Responses that wait for the store are sent before the process ends.
            tokio::time::sleep(LAST_RESPONSES).await;
            return Err(anyhow::Error::from(fault)).context("the store has stopped; restart the server");
        }
        () = cut_off => tracing::warn!("connections were closed before they ended"),
    }
    sweeper.abort();
    Ok(())
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
    };
    composition::access(data_dir, authenticator, settings)
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

/// Expires the leases of clients that have not reported in time.
async fn sweep(studies: Arc<Studies>) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = studies.sweep().await {
            tracing::error!(error = &error as &dyn std::error::Error, "the leases could not be checked");
        }
    }
}

/// Waits until the store takes no changes until it is opened again, and returns the reason.
async fn until_stopped(mut condition: watch::Receiver<Condition>) -> StoreFault {
    match condition.wait_for(|now| matches!(now, Condition::Stopped(_))).await.as_deref() {
        Ok(Condition::Stopped(fault)) => fault.clone(),
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// Handles SIGXFSZ, which would end the process, while the returned value exists: a write beyond a limit on the size of
/// files fails instead.
fn failing_writes_beyond_limits() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
}

/// Returns a future that completes with the first SIGINT or SIGTERM.
fn end_signal() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
