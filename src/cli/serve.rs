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

use super::output::print;
use super::run::{ContainerArgs, StoreChoice};
use crate::api::rest::server::{self, Service};
use crate::clock::{Clock, SystemClock};
use crate::data_dir::DataDir;
use crate::executor::local::{LocalExecutor, LocalSettings};
use crate::policy::Policy;
use crate::python_packages::Environments;
use crate::service::jobs::{Jobs, Workplace};
use crate::service::optimizer::Optimizer;
use crate::service::{Control, LiveTrials, TrialReports};

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
    let store = data_dir.store().await?;
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("{} cannot be listened on", args.listen))?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let policy = Arc::new(Policy::new(Arc::clone(&store), processors));
    let live = Arc::new(LiveTrials::default());
    let optimizer = Arc::new(Optimizer::new(Arc::clone(&store), Arc::clone(&policy), Arc::clone(&clock)));
    let jobs = Arc::new(Jobs::new(Workplace {
        store: Arc::clone(&store),
        executor: Arc::new(LocalExecutor::new(LocalSettings {
            supervisor: std::env::current_exe().context("this program's own file cannot be found")?,
            registry: data_dir.path().join("executions"),
            container_options: args.container.options.clone(),
            container_run_options: args.container.run_options.clone(),
        })),
        policy,
        environments: Arc::new(Environments::new(data_dir.environments())),
        live: Arc::clone(&live),
        clock: Arc::clone(&clock),
        endpoint: endpoint.clone(),
        directory: Box::new({
            let data_dir = Arc::clone(&data_dir);
            move |job| data_dir.job(job)
        }),
        slots: args.job_slots.map_or(processors, |slots| usize::from(slots.get())),
    }));
    jobs.take_up().await?;
    let (set_control, control) = watch::channel(Control::Run);
    let carrying_out = tokio::spawn({
        let jobs = Arc::clone(&jobs);
        async move { jobs.run(control).await }
    });
    let sweeper = tokio::spawn(sweep(Arc::clone(&optimizer)));
    let service = Service {
        optimizer,
        jobs,
        reports: TrialReports::new(store, live),
        clock,
        working_directory: std::env::current_dir().context("the current folder cannot be read")?,
    };
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
