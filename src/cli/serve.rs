//! `tunesmith serve`: the service over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::output::print;
use super::run::StoreChoice;
use crate::api::rest::server;
use crate::clock::{Clock, SystemClock};
use crate::data_dir::DataDir;
use crate::policy::Policy;
use crate::service::optimizer::Optimizer;

/// How often leases are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Folder of studies and trials.
    #[arg(long, value_name = "DIR", default_value = super::run::DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// What keeps them; a folder stays with the kind it was made with.
    #[arg(long, value_enum, default_value_t = StoreChoice::Sqlite)]
    store: StoreChoice,
}

/// Serves until SIGINT or SIGTERM, and answers the requests in flight before it ends.
pub(super) fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if !args.listen.ip().is_loopback() {
        bail!(
            "--listen {}: requests are not authenticated, so the service listens on the loopback interface only \
             (127.0.0.1 or [::1])",
            args.listen
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(args))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let who = format!("tunesmith serve --listen {}", args.listen);
    let data_dir = DataDir::open(&args.data_dir, args.store.kind(), &who)?;
    let store = data_dir.store().await?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let policy = Arc::new(Policy::new(Arc::clone(&store), processors));
    let optimizer = Arc::new(Optimizer::new(store, policy, Arc::clone(&clock)));
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("{} cannot be listened on", args.listen))?;
    let sweeper = tokio::spawn(sweep(Arc::clone(&optimizer)));
    print(&format!("listening on http://{}\n", listener.local_addr()?))?;
    let served = axum::serve(listener, server::router(optimizer, clock)).with_graceful_shutdown(end_signal()?).await;
    sweeper.abort();
    Ok(served?)
}

/// Takes trials back from clients that are silent for too long.
async fn sweep(optimizer: Arc<Optimizer>) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = optimizer.sweep().await {
            tracing::error!(error = &error as &dyn std::error::Error, "leases could not be looked at");
        }
    }
}

/// Ends with the first SIGINT or SIGTERM.
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
