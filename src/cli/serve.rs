//! `tunesmith serve`: the service over HTTP.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::engine::{self, Settings};
use super::output::print;
use super::run::{ContainerArgs, StoreChoice};
use crate::api::rest::server;
use crate::data_dir::DataDir;
use crate::service::Control;
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
    /// How many jobs run at once; as many as there are processors if absent.
    #[arg(long, value_name = "N")]
    job_slots: Option<NonZeroU16>,
    #[command(flatten)]
    container: ContainerArgs,
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
    let data_dir = Arc::new(DataDir::open(&args.data_dir, args.store.kind(), &who)?);
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("{} cannot be listened on", args.listen))?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let settings = Settings { endpoint: endpoint.clone(), job_slots: args.job_slots, container: &args.container };
    let service = engine::compose(&data_dir, settings).await?;
    service.packages.remove_unfinished()?;
    let jobs = Arc::clone(&service.jobs);
    jobs.take_up().await?;
    let (set_control, control) = watch::channel(Control::Run);
    let carrying_out = tokio::spawn({
        let jobs = Arc::clone(&jobs);
        async move { jobs.run(control).await }
    });
    let sweeper = tokio::spawn(sweep(Arc::clone(&service.optimizer)));
    print(&format!("listening on {endpoint}\n"))?;
    let end = end_signal()?;
    let ended = async move {
        end.await;
        // Programs that run report until they have ended.
        set_control.send_replace(Control::Interrupt);
        if let Err(error) = carrying_out.await {
            tracing::error!(error = &error as &dyn std::error::Error, "carrying out jobs stopped unexpectedly");
        }
    };
    let served = axum::serve(listener, server::router(service)).with_graceful_shutdown(ended).await;
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
